"""Measures a batch of requests over one pool: tokens a second for each number of rows.

batching.py                             SmolLM2 in bf16: 1, 4 and 16 requests, two threads
batching.py f32 int8-bf16 --rows 1 16   these ways (decoding.py names them) and rows
batching.py --model llama-270m          16 layers with random weights, as in issue 17

Each request has a random prompt of the context's length. Steps are timed when all
prompts were read, so each step makes one token of each request. Every line of figures
comes from a fresh process. "step" is the part of a token's time that the compiled step
takes, of all rows together.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from typing import Any

from decoding import StepClock

STEPS = 24
ROUNDS = 3


def load(name: str, way: str, length: int, rows: int) -> Any:
    """The compiled model, with decode programs for exactly these rows in use."""
    import torch

    from anabranch import llm

    kind, _, dtype = way.partition("-")
    narrow = "bf16" in (kind, dtype)
    floats = torch.bfloat16 if narrow else torch.float32
    if name == "llama-270m":
        import transformers

        config = transformers.LlamaConfig(
            hidden_size=1024,
            intermediate_size=2816,
            num_hidden_layers=16,
            num_attention_heads=16,
            num_key_value_heads=4,
            vocab_size=32000,
            max_position_embeddings=4096,
            torch_dtype=floats,
        )
        torch.manual_seed(0)
        model = transformers.LlamaForCausalLM(config).to(floats).eval()
    else:
        model, _ = llm.load(name, dtype=floats, packed=kind == "packed")
    quantize = kind if kind in ("int4", "int8") else None
    return llm.compile(model, quantize=quantize, max_batch=rows, max_length=length)


def measure(name: str, way: str, rows: int, context: int, threads: int) -> list[float]:
    """Tokens a second of all requests, and milliseconds of a token and of a step."""
    import torch

    from anabranch.llm import programs
    from anabranch.llm.chunk_sizes import chunks

    torch.set_num_threads(threads)
    # Requests whose prompts were read first are ahead by a token for each later chunk.
    new = STEPS * ROUNDS + 2 + rows * len([*chunks(context, None)])
    compiled = load(name, way, context + new, rows)
    batch = compiled.batch(cache_tokens=rows * (context + new + 32))
    generator = torch.Generator().manual_seed(0)
    begin = time.perf_counter()
    for _ in range(rows):
        tokens = torch.randint(1000, 20000, (context,), generator=generator)
        batch.add(tokens, max_new_tokens=new, min_new_tokens=new, do_sample=False)
    while batch.waiting or any(request._chunks for request in batch.running):
        batch.step()
    read = time.perf_counter() - begin
    clock = StepClock(programs.Programs)
    batch.step()
    found = []
    for _ in range(ROUNDS):
        clock.spent.clear()
        begin = time.perf_counter()
        for _ in range(STEPS):
            batch.step()
        spent = time.perf_counter() - begin
        found.append((spent / STEPS, sum(clock.spent) / STEPS))
    token, step = min(found)
    return [rows / token, token * 1e3, step * 1e3, rows * context / read]


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
        found = measure(
            given.model,
            given.ways[0],
            given.rows[0],
            given.contexts[0],
            given.threads,
        )
        print(json.dumps(found))
        return
    print(f"{'way':10} rows context  tokens/s  token ms   step ms  prompt tokens/s")
    for way in given.ways:
        for rows in given.rows:
            for context in given.contexts:
                command = [sys.executable, __file__, "--child", way]
                command += ["--model", given.model, "--rows", str(rows)]
                command += ["--contexts", str(context)]
                command += ["--threads", str(given.threads)]
                done = subprocess.run(
                    command, stdout=subprocess.PIPE, text=True, check=True
                )
                all_, token, step, read = json.loads(done.stdout.splitlines()[-1])
                print(
                    f"{way:10} {rows:4} {context:7} {all_:9.1f} {token:9.3f}"
                    f" {step:9.3f} {read:12.0f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
