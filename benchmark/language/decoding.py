"""Measures language models: tokens a second, prefill, starts, and llama.cpp's figures.

decoding.py                          SmolLM2 in each way, one thread and two
decoding.py int4 packed --threads 1  these ways alone
decoding.py --llama-bench PROGRAM --gguf Q4_1.gguf BF16.gguf
                                     llama.cpp's own benchmark for these files
decoding.py packed --llama-bench PROGRAM --gguf Q4_1.gguf --rounds 5
                                     both in turns, and the medians
decoding.py f32 --model MODEL.gguf --depth 2048
                                     another model, decoding after 2,048 tokens

Every figure comes from a fresh process, or is the median of several in turns. A way is a dtype of activations
("f32", "bf16"), or one with weights in few bits ("int4", "int4-bf16"). "packed" keeps
the integers of a GGUF file. "a8" after one lets products round activations to bytes.
"token" is the time between two tokens of generate(), and "step" the part of it that the
compiled step takes. "sampled" is a token with temperature, top-k, top-p, min-p and a
repetition penalty. speculative.py measures guessed tokens.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

START = time.perf_counter()
WAYS = (
    "f32",
    "bf16",
    "int8",
    "int8-bf16",
    "int4",
    "int4-bf16",
    "packed",
    "packed-bf16",
    "packed-a8",
    "int8-a8",
)
PROMPTS = (46, 512)
NEW_TOKENS = 128
LENGTH = 1024
ROUNDS = 5
GREEDY = {"do_sample": False}
SAMPLED = {
    "do_sample": True,
    "temperature": 0.8,
    "top_k": 50,
    "top_p": 0.9,
    "min_p": 0.02,
    "repetition_penalty": 1.1,
}


def parts_of(way: str) -> tuple[str, Any, str]:
    """The weights of a way, the dtype of its activations, and what products read of
    these."""
    import torch

    parts = way.split("-")
    dtype = torch.bfloat16 if "bf16" in parts else torch.float32
    return parts[0], dtype, "int8" if "a8" in parts else "exact"


def quantized(kind: str) -> str | None:
    """The argument `quantize` of llm.compile for these weights."""
    return kind if kind in ("int4", "int8") else None


def measure(model_name: str, way: str, threads: int, depth: int) -> dict[str, float]:
    """Measures one way in this process, which has just begun. Decoding begins after
    `depth` tokens."""
    import torch

    torch.set_num_threads(threads)
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    from anabranch import llm
    from anabranch.llm import programs

    imported = time.perf_counter()
    kind, floats, activations = parts_of(way)
    model, _ = llm.load(model_name, dtype=floats, packed=kind == "packed")
    loaded = time.perf_counter()
    # As in llama.cpp's benchmark no token ends an answer. A least number of tokens would
    # read all logits at each of them.
    model.generation_config.eos_token_id = None
    length = max(LENGTH, depth + NEW_TOKENS)
    compiled = llm.compile(
        model, quantize=quantized(kind), max_length=length, activations=activations
    )
    clock = StepClock(programs.Programs)
    first = answer(compiled, PROMPTS[0], 2)
    ready = time.perf_counter()
    found = {
        "import s": imported - START,
        "load s": loaded - imported,
        "compile s": ready - loaded,
        "first token s": first[0],
    }
    for prompt in PROMPTS:
        times = [answer(compiled, prompt, 1)[0] for _ in range(ROUNDS)]
        found[f"prefill {prompt} tokens/s"] = prompt / min(times)
    rounds = []
    for _ in range(ROUNDS):
        clock.spent.clear()
        answer(compiled, depth, 2)
        clock.spent.clear()
        times = answer(compiled, depth, NEW_TOKENS)
        steps = clock.spent[-(NEW_TOKENS - 1) :]
        rounds.append((between(times), sum(steps) / len(steps)))
    token, step = min(rounds)
    answer(compiled, depth, 2, SAMPLED)  # compiles its graph
    sampled = min(
        between(answer(compiled, depth, NEW_TOKENS, SAMPLED)) for _ in range(ROUNDS)
    )
    return found | {
        "token ms": token * 1e3,
        "sampled ms": sampled * 1e3,
        "step ms": step * 1e3,
        "decode tokens/s": 1 / token,
    }


class StepClock:
    """The seconds of each call of a compiled step."""

    def __init__(self, programs: Any) -> None:
        self.spent: list[float] = []
        call: Callable[..., Any] = programs.call

        def timed(*args: Any, **kwargs: Any) -> Any:
            begin = time.perf_counter()
            found = call(*args, **kwargs)
            self.spent.append(time.perf_counter() - begin)
            return found

        programs.call = timed


def between(times: list[float]) -> float:
    """The mean time between two tokens."""
    return (times[-1] - times[0]) / (len(times) - 1)


def answer(
    compiled: Any, prompt: int, new: int, choice: dict[str, Any] = GREEDY
) -> list[float]:
    """The seconds from the call to each token. `choice` are generate()'s arguments."""
    import torch

    class Times:
        def __init__(self) -> None:
            self.times: list[float] = []

        def put(self, _: Any) -> None:
            self.times.append(time.perf_counter() - begin)

        def end(self) -> None:
            pass

    generator = torch.Generator().manual_seed(0)
    tokens = torch.randint(1000, 20000, (1, prompt), generator=generator)
    times = Times()
    begin = time.perf_counter()
    compiled.generate(
        tokens,
        attention_mask=torch.ones_like(tokens),
        max_new_tokens=new,
        streamer=times,
        **choice,
    )
    return times.times[1:]  # The first one is the prompt.


def in_fresh_process(
    model: str, way: str, threads: int, depth: int
) -> dict[str, float]:
    command = [sys.executable, __file__, "--child", way, "--model", model]
    command += ["--threads", str(threads), "--depth", str(depth)]
    begin = time.perf_counter()
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    found = json.loads(done.stdout.strip().rsplit("\n", 1)[-1])
    return found | {"process s": time.perf_counter() - begin}


def of_llama_cpp(program: str, file: str, threads: int, depth: int) -> dict[str, float]:
    """Figures of llama.cpp's own benchmark. "start" loads the model and reads a prompt."""
    base = [program, "-m", file, "-t", str(threads), "-o", "json"]
    prompts = ",".join(map(str, PROMPTS))

    def run(*more: str) -> list[dict[str, Any]]:
        done = subprocess.run(
            [*base, *more],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            check=True,
        )
        return json.loads(done.stdout)

    begin = time.perf_counter()
    run("-p", str(PROMPTS[0]), "-n", "0", "-r", "1", "--no-warmup")
    start = time.perf_counter() - begin
    found = {}
    rows = run("-p", prompts, "-n", "0", "-r", str(ROUNDS))
    decoding = ("-p", "0", "-n", str(NEW_TOKENS), "-d", str(depth))
    for row in rows + run(*decoding, "-r", str(ROUNDS)):
        name = "decode" if row["n_gen"] else f"prefill {row['n_prompt']}"
        # Its samples are seconds of whole runs: the best of them, as above.
        count = row["n_gen"] or row["n_prompt"]
        found[f"{name} tokens/s"] = count * 1e9 / min(row["samples_ns"])
    return found | {"start s": start}


def contenders(
    given: argparse.Namespace, threads: int
) -> dict[str, Callable[[], dict[str, float]]]:
    found: dict[str, Callable[[], dict[str, float]]] = {}
    for way in given.ways or (() if given.llama_bench else WAYS):
        found[f"anabranch {way}"] = functools.partial(
            in_fresh_process, given.model, way, threads, given.depth
        )
    for file in given.gguf if given.llama_bench else ():
        found[f"llama.cpp {Path(file).name}"] = functools.partial(
            of_llama_cpp, given.llama_bench, file, threads, given.depth
        )
    return found


def lines(given: argparse.Namespace) -> Iterator[tuple[str, dict[str, float]]]:
    for threads in given.threads:
        measured = contenders(given, threads)
        rounds: dict[str, list[dict[str, float]]] = {name: [] for name in measured}
        for _ in range(given.rounds):
            for name, run in measured.items():
                rounds[name].append(run())
        for name, rows in rounds.items():
            yield (
                f"{name}, {threads} threads",
                {key: statistics.median(row[key] for row in rows) for key in rows[0]},
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("ways", nargs="*", metavar="WAY")
    parser.add_argument("--model", default="SmolLM2")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--depth", type=int, default=PROMPTS[0], metavar="TOKENS")
    parser.add_argument("--llama-bench", metavar="PROGRAM")
    parser.add_argument("--gguf", nargs="+", default=[], metavar="FILE")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--child", metavar="WAY", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        found = measure(given.model, given.child, given.threads[0], given.depth)
        print(json.dumps(found))
        return
    if not set(given.ways) <= set(WAYS):
        parser.error(f"ways are {', '.join(WAYS)}")
    for title, found in lines(given):
        print(title)
        for name, value in found.items():
            print(f"  {name:24} {value:10.3f}", flush=True)


if __name__ == "__main__":
    main()
