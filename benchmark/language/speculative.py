"""Measures guesses of tokens: tokens a second of CPU time, beside plain decoding.

speculative.py                        SmolLM2: prompt lookup and a trained head
speculative.py --dtype bf16           the same in bf16
speculative.py --made 264             a Llama of 264 million random weights whose last
                                      layers add little, with its first two as assistant

One thread. The ways take turns; figures are medians of CPU seconds, and hold on a machine
that does other work as well. "checks" are steps of the model, "tokens a check" how many
tokens one gave. Texts: a prompt that repeats lines for prompt lookup; paragraphs of
"Alice's Adventures in Wonderland" for the head, which is trained in this process on what
the model itself says after lines of "Pride and Prejudice". The assistant of the made model
agrees with it by construction: it stands for a pair that was trained together.
"""

from __future__ import annotations

import argparse
import copy
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

TEXTS = Path(__file__).parent / "texts"
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}
LENGTH, PROMPT = 512, 48
LINES = "".join(
    f"{number}. The keeper of room {number} has a key, a lamp and a book.\n"
    for number in range(1, 11)
)
# Layers of a made model that speak, and how much the others add.
SPEAKING, WHISPER = 2, 0.02


def paragraphs(tokenizer: Any, name: str, count: int, skip: int = 0) -> list[Any]:
    """The first tokens of so many paragraphs."""
    text = (TEXTS / name).read_text().replace("\r", "")
    parts = [" ".join(part.split()) for part in text.split("\n\n")]
    ids = [tokenizer(part, return_tensors="pt").input_ids for part in parts]
    long = [part[:, :PROMPT] for part in ids if part.shape[1] >= PROMPT]
    return long[skip : skip + count]


class CheckClock:
    """Counts the checks of a compiled model."""

    def __init__(self, compiled: Any, with_head: bool) -> None:
        self.count, of = 0, compiled._speculation
        steps = of._eagle[0] if with_head else of._steps
        run = steps.run

        def counted(*arguments: Any, **more: Any) -> Any:
            self.count += not more.get("last_only", False)
            return run(*arguments, **more)

        steps.run = counted


Way = tuple[Any, list[Any], dict[str, Any], CheckClock | None]


def measure(ways: dict[str, Way], rounds: int, new: int) -> None:
    """Prints a line for each way. The first way of the same prompts is the plain one."""
    greedy = {"do_sample": False, "max_new_tokens": new}
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    answers: dict[str, list[Any]] = {}
    checks: dict[str, int] = {}
    for turn in range(rounds + 1):  # The first one compiles.
        for name, (compiled, prompts, more, clock) in ways.items():
            if clock is not None:
                clock.count = 0
            begin = time.process_time()
            found = [
                compiled.generate(
                    prompt, attention_mask=torch.ones_like(prompt), **greedy, **more
                )
                for prompt in prompts
            ]
            spent = time.process_time() - begin
            answers[name] = found
            if clock is not None:
                checks[name] = clock.count
            if turn:
                seconds[name].append(spent)
    plain: dict[int, str] = {}
    for name, (_, prompts, _, _) in ways.items():
        first = plain.setdefault(id(prompts), name)
        made = sum(a.shape[1] - p.shape[1] for a, p in zip(answers[name], prompts))
        spent = statistics.median(seconds[name])
        ratio = statistics.median(a / b for a, b in zip(seconds[first], seconds[name]))
        same = all(map(torch.equal, answers[name], answers[first]))
        line = f"{name:28} {made / spent:7.1f} tokens/s  {ratio:5.2f} of plain"
        if name in checks:
            line += f"  {(made - len(prompts)) / checks[name]:5.2f} tokens a check"
        print(line + ("" if same else "  (texts differ)"), flush=True)


def own_words(
    compiled: Any, prompts: list[Any], new: int, length: int = PROMPT
) -> torch.Tensor:
    """What a model says after these prompts, [prompts, tokens]."""
    return torch.cat(
        [
            compiled.generate(prompt[:, :length], do_sample=False, max_new_tokens=new)
            for prompt in prompts
        ]
    )


def of_smollm2(given: argparse.Namespace) -> dict[str, Way]:
    from eagle_training import trained

    from anabranch import llm

    dtype = DTYPES[given.dtype]
    model, tokenizer = llm.load(given.model, dtype=dtype, packed=False)
    model.generation_config.eos_token_id = None
    plain = llm.compile(model, max_length=LENGTH)
    lines = [tokenizer(LINES, return_tensors="pt").input_ids]
    held_out = paragraphs(tokenizer, "alice.txt", given.prompts)
    ways: dict[str, Way] = {
        "plain, lines": (plain, lines, {}, None),
        "prompt lookup, lines": (
            plain,
            lines,
            {"prompt_lookup_num_tokens": given.guesses},
            CheckClock(plain, with_head=False),
        ),
    }
    if given.steps:
        read = paragraphs(tokenizer, "pride.txt", given.texts)
        texts = own_words(plain, read, given.new)
        floats = copy.deepcopy(model).float()
        draft = trained(floats, texts, given.words, given.steps)
        guided = llm.compile(model, max_length=LENGTH, draft=draft)
        seen = read[: given.prompts]
        ways |= {
            "plain, held out": (plain, held_out, {}, None),
            "head, held out": (
                guided,
                held_out,
                {},
                CheckClock(guided, with_head=True),
            ),
            "plain, learned": (plain, seen, {}, None),
            "head, learned": (guided, seen, {}, CheckClock(guided, with_head=True)),
        }
    return ways


def of_made(given: argparse.Namespace) -> dict[str, Way]:
    from anabranch import llm

    model, assistant = made_pair(given.made, DTYPES[given.dtype])
    plain = llm.compile(model, max_length=LENGTH)
    generator = torch.Generator().manual_seed(0)
    prompts = [
        torch.randint(1000, 20000, (1, PROMPT), generator=generator)
        for _ in range(given.prompts)
    ]
    assistant.generation_config.num_assistant_tokens = given.guesses
    assistant.generation_config.assistant_confidence_threshold = 0.0
    return {
        "plain": (plain, prompts, {}, None),
        "assistant": (
            plain,
            prompts,
            {"assistant_model": assistant},
            CheckClock(plain, with_head=False),
        ),
    }


def made_pair(millions: int, dtype: torch.dtype) -> tuple[Any, Any]:
    """A Llama of so many million random weights, and its first layers as a model."""
    from transformers import LlamaConfig, LlamaForCausalLM

    width, layers, words = {264: (1024, 16, 49152), 1100: (2048, 22, 32000)}[millions]
    config = LlamaConfig(
        hidden_size=width,
        intermediate_size=int(width * 2.75),
        num_hidden_layers=layers,
        num_attention_heads=width // 64,
        num_key_value_heads=8,
        vocab_size=words,
        max_position_embeddings=4096,
        tie_word_embeddings=millions == 264,
        eos_token_id=None,
    )
    torch.manual_seed(0)
    model = LlamaForCausalLM(config).eval().to(dtype)
    with torch.no_grad():
        for layer in model.model.layers[SPEAKING:]:
            layer.self_attn.o_proj.weight.mul_(WHISPER)
            layer.mlp.down_proj.weight.mul_(WHISPER)
    short = copy.copy(config)
    short.num_hidden_layers = SPEAKING
    assistant = LlamaForCausalLM(short).eval().to(dtype)
    assistant.load_state_dict(model.state_dict(), strict=False)
    return model, assistant


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", default="SmolLM2")
    parser.add_argument("--dtype", choices=[*DTYPES], default="f32")
    parser.add_argument("--made", type=int, choices=[264, 1100], metavar="MILLIONS")
    parser.add_argument("--guesses", type=int, default=7, help="of lookup, assistant")
    parser.add_argument("--steps", type=int, default=300, help="of a head's training")
    parser.add_argument("--texts", type=int, default=60, help="that a head learns")
    parser.add_argument("--words", type=int, default=4096, help="that a head knows")
    parser.add_argument("--prompts", type=int, default=4)
    parser.add_argument("--new", type=int, default=128, help="tokens of an answer")
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    torch.set_num_threads(1)
    make: Callable[..., dict[str, Way]] = of_made if given.made else of_smollm2
    measure(make(given), given.rounds, given.new)


if __name__ == "__main__":
    main()
