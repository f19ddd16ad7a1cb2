"""Measures a batch of requests over one pool: tokens a second for each number of rows.

batching.py                             SmolLM2 in bf16: 1, 4 and 16 requests, two threads
batching.py f32 int8-bf16 --rows 1 16   these ways (decoding.py names them) and rows
batching.py --model llama-270m          16 layers with random weights, as in issue 17

Each request has a random prompt of the context's length. Steps are timed when all
prompts were read, so each step makes one token of each request. "step" is the part of a
token's time that the compiled step takes, of all rows together. Every way has a process
of its own, and one pool.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from typing import Any

from decoding import StepClock, parts_of, quantized

STEPS = 24
ROUNDS = 3


def load(name: str, way: str, rows: int, length: int) -> Any:
    import torch

    from anabranch import llm

    kind, floats, activations = parts_of(way)
    if name == "llama-270m":
        import transformers

        sizes = {"hidden_size": 1024, "intermediate_size": 2816, "vocab_size": 32000}
        config = transformers.LlamaConfig(
            **sizes,
            num_hidden_layers=16,
            num_attention_heads=16,
            num_key_value_heads=4,
            max_position_embeddings=4096,
        )
        torch.manual_seed(0)
        model = transformers.LlamaForCausalLM(config).to(floats).eval()
    else:
        model, _ = llm.load(name, dtype=floats, packed=kind == "packed")
    return llm.compile(
        model,
        quantize=quantized(kind),
        max_batch=rows,
        max_length=length,
        activations=activations,
    )


def measure(given: argparse.Namespace) -> None:
    """Prints a line for each number of requests and context."""
    import torch

    from anabranch.llm import programs

    torch.set_num_threads(given.threads)
    most = max(given.rows)
    # Requests whose prompts were read first are ahead by a token for each later chunk.
    new = STEPS * ROUNDS + 5 * most
    length = max(given.contexts) + new
    compiled = load(given.model, given.ways[0], most, length)
    batch = compiled.batch(cache_tokens=most * length)
    clock = StepClock(programs.Programs)
    generator = torch.Generator().manual_seed(0)
    for rows in given.rows:
        for context in given.contexts:
            settings = {"max_new_tokens": new, "min_new_tokens": new}
            for _ in range(rows):
                tokens = torch.randint(1000, 20000, (context,), generator=generator)
                batch.add(tokens, do_sample=False, **settings)
            batch.step()  # May compile a program.
            begin = time.perf_counter()
            while batch.waiting or any(request._chunks for request in batch.running):
                batch.step()
            spent = time.perf_counter() - begin
            batch.step()
            found = []
            for _ in range(ROUNDS):
                clock.spent.clear()
                begin = time.perf_counter()
                for _ in range(STEPS):
                    batch.step()
                token = (time.perf_counter() - begin) / STEPS
                found.append((token, sum(clock.spent) / STEPS))
            token, step = min(found)
            print(
                f"{given.ways[0]:10} {rows:4} {context:7} {rows / token:9.1f}"
                f" {token * 1e3:9.3f} {step * 1e3:9.3f} {spent:9.2f}",
                flush=True,
            )
            for request in list(batch.running):
                batch.cancel(request)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("ways", nargs="*", metavar="WAY", default=["bf16"])
    parser.add_argument("--model", default="SmolLM2")
    parser.add_argument("--rows", type=int, nargs="+", default=[1, 4, 16])
    parser.add_argument("--contexts", type=int, nargs="+", default=[256, 2048])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        return measure(given)
    print(f"{'way':10} rows context  tokens/s  token ms   step ms  prompts s")
    for way in given.ways:
        # Every way runs in a fresh process.
        rest = [argument for argument in sys.argv[1:] if argument not in given.ways]
        command = [sys.executable, __file__, "--child", way, *rest]
        subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
