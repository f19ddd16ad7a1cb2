"""Language models of 16 architectures, four layers with random weights: how exact their
logits are in bf16, and how long a graph takes to compile.

decoders.py                 a table in Markdown of all of them
decoders.py gemma3 mixtral  these alone

A model has two graphs over a static cache: a prompt of 64 tokens, and a step of one. T5
and Whisper have one, of encoder and decoder. Errors are root mean squares over 16 prompts
against the model in f32 with the same weights, which bf16 holds; "ours / eager" is the
larger one of the graphs'. "compile" is the time of a graph's first call without the cache, tracing
included, in a process that has compiled something else before.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
import transformers

SIZES: dict[str, Any] = {
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "vocab_size": 1000,
    "initializer_range": 0.05,
}
FEW_KEYS = SIZES | {"num_key_value_heads": 2}
HEADS = FEW_KEYS | {"head_dim": 64}
EXPERTS = {"num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 128}
WINDOW = {"sliding_window": 32}
PROMPT = 64
PROMPTS = 16
GPT2 = {
    "n_embd": 256,
    "n_layer": 4,
    "n_head": 4,
    "vocab_size": 1000,
    "initializer_range": 0.05,
}
BLOOM = {"hidden_size": 256, "n_layer": 4, "n_head": 4, "vocab_size": 1000}
FALCON = {
    name: SIZES[name]
    for name in (
        "hidden_size",
        "num_hidden_layers",
        "num_attention_heads",
        "vocab_size",
        "initializer_range",
    )
}
OPT = {
    "hidden_size": 256,
    "word_embed_proj_dim": 256,
    "ffn_dim": 512,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "vocab_size": 1000,
    "init_std": 0.05,
}
T5 = {
    "d_model": 256,
    "d_kv": 64,
    "d_ff": 512,
    "num_layers": 4,
    "num_heads": 4,
    "vocab_size": 1000,
}
WHISPER = {
    "d_model": 256,
    "encoder_layers": 4,
    "decoder_layers": 4,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 512,
    "decoder_ffn_dim": 512,
    "vocab_size": 1000,
    "max_source_positions": 100,
    "init_std": 0.05,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 1,
}
# Name: prefix of the classes in transformers, options.
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("Llama", FEW_KEYS),
    "qwen2": ("Qwen2", FEW_KEYS),
    "qwen3": ("Qwen3", HEADS),
    "mistral": ("Mistral", FEW_KEYS | WINDOW),
    "gemma2": ("Gemma2", HEADS | WINDOW),
    "gemma3": ("Gemma3", HEADS | WINDOW),
    "phi": ("Phi", SIZES),
    "gpt2": ("GPT2", GPT2),
    "gpt_neox": ("GPTNeoX", SIZES),
    "mixtral": ("Mixtral", FEW_KEYS | {"num_local_experts": 8}),
    "qwen2_moe": (
        "Qwen2Moe",
        FEW_KEYS | EXPERTS | {"shared_expert_intermediate_size": 256},
    ),
    "falcon": ("Falcon", FALCON),
    "bloom": ("Bloom", BLOOM | {"initializer_range": 0.05}),
    "opt": ("OPT", OPT),
    "t5": ("T5", T5),
    "whisper": ("Whisper", WHISPER),
}
Graph = tuple[str, Callable[[Any, Any], torch.Tensor]]


def built(name: str) -> Any:
    """The model in bf16."""
    family, options = MODELS[name]
    text = "Text" if family == "Gemma3" else ""
    config = getattr(transformers, f"{family}{text}Config")(**options)
    kind = "ConditionalGeneration" if name in ("t5", "whisper") else "CausalLM"
    head = {"GPT2": "GPT2LMHeadModel"}.get(family, f"{family}For{kind}")
    torch.manual_seed(0)
    return getattr(transformers, head)(config).to(torch.bfloat16).eval()


def graphs(name: str, number: int) -> list[Graph]:
    """Calls of a model with a prompt of this number. Each gives logits of the model, and
    takes what computes its forward too."""
    generator = torch.Generator().manual_seed(number)
    tokens = torch.randint(3, 1000, (1, PROMPT + 1), generator=generator)
    whole, last = tokens[:, :PROMPT], tokens[:, PROMPT:]
    if name in ("t5", "whisper"):
        sound = torch.randn(1, 80, 200, generator=generator)

        def both(model: Any, run: Any) -> torch.Tensor:
            given: dict[str, Any] = {"input_ids": whole}
            if name == "whisper":
                given = {"input_features": sound.to(model.dtype)}
            return run(**given, decoder_input_ids=whole[:, :16], use_cache=False).logits

        return [("both", both)]

    def cached(model: Any) -> tuple[Any, dict[str, Any]]:
        cache = transformers.StaticCache(config=model.config, max_cache_len=128)
        return cache, {"past_key_values": cache, "use_cache": True}

    def placed(tokens: torch.Tensor, begin: int) -> dict[str, torch.Tensor]:
        if name != "opt":
            return {"input_ids": tokens}
        # OPT alone derives positions and the need of a mask by values, which no trace
        # knows. generate() passes both.
        end = begin + tokens.shape[1]
        return {
            "input_ids": tokens,
            "position_ids": torch.arange(begin, end)[None],
            "attention_mask": torch.ones((1, end), dtype=torch.long),
        }

    def prompt(model: Any, run: Any) -> torch.Tensor:
        return run(**placed(whole, 0), **cached(model)[1]).logits

    def step(model: Any, run: Any) -> torch.Tensor:
        _, given = cached(model)
        model(**placed(whole, 0), **given)  # in PyTorch, for all alike
        return run(**placed(last, PROMPT), **given).logits

    return [("prompt", prompt), ("step", step)]


def errors(found: list[torch.Tensor], exact: list[torch.Tensor]) -> float:
    """Root mean square, as a part of that of the exact logits."""
    squares = sum(
        (a.double() - b.double()).square().sum() for a, b in zip(found, exact)
    )
    return float((squares / sum(b.double().square().sum() for b in exact)).sqrt())


@torch.no_grad()
def measure(name: str) -> dict[str, float]:
    import anabranch

    warm = torch.compile(torch.nn.Linear(8, 8), backend="anabranch")
    warm(torch.randn(2, 8))
    model, exact = built(name), built(name).float()
    found = {"ratio": 0.0, "f32": 0.0, "eager": 0.0}
    prompts = [graphs(name, number) for number in range(PROMPTS)]
    for at, (graph, first) in enumerate(prompts[0]):
        calls = [prompt[at][1] for prompt in prompts]
        wanted = [call(exact, exact) for call in calls]
        of_eager = errors([call(model, model) for call in calls], wanted)
        for dtype, one in (("f32", exact), ("bf16", model)):
            anabranch.counters.reset()
            run = torch.compile(one, backend="anabranch", dynamic=False, fullgraph=True)
            found[f"{graph} {dtype}"] = first_call(first, one, run)
            ours = errors([call(one, run) for call in calls], wanted)
            if anabranch.counters.eager_graphs or anabranch.counters.graphs != 1:
                raise RuntimeError(f"{name}: not one graph: {anabranch.counters}")
            if one is exact:
                found["f32"] = max(found["f32"], ours)
            elif ours / of_eager > found["ratio"]:
                found |= {"ratio": ours / of_eager, "eager": of_eager}
    return found


def first_call(call: Any, model: Any, run: Any) -> float:
    """The seconds of the call of `run` alone, which compiles."""
    spent = 0.0

    def timed(**given: Any) -> Any:
        nonlocal spent
        begin = time.perf_counter()
        try:
            return run(**given)
        finally:
            spent += time.perf_counter() - begin

    call(model, timed)
    return spent


def in_fresh_process(name: str) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, __file__, "--child", name],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        env=os.environ | {"ANABRANCH_CACHE": "0"},
    )
    return json.loads(done.stdout.strip().rsplit("\n", 1)[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--child", metavar="NAME", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        print(json.dumps(measure(given.child)))
        return
    if not set(given.names) <= set(MODELS):
        parser.error(f"names are {', '.join(MODELS)}")
    print("| model | f32, error | bf16, eager's error | ours / eager | compile, s |")
    print("|---|---|---|---|---|")
    for name in given.names or MODELS:
        found = in_fresh_process(name)
        times = [
            f"{graph} {found[f'{graph} f32']:.1f}, {found[f'{graph} bf16']:.1f}"
            for graph in ("prompt", "step", "both")
            if f"{graph} f32" in found
        ]
        print(
            f"| {name} | {found['f32']:.1e} | {found['eager']:.1e} |"
            f" {found['ratio']:.2f} | {'; '.join(times)} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
