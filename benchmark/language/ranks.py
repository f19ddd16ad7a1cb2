"""A Llama that tensor parallelism spreads over gloo ranks of one thread each: the eager
model and the compiled one in turns, prefill and decode over a static cache.

ranks.py                     two ranks, prompts of 256 tokens, f32
ranks.py --ranks 4 --prompt 512 --dtype bf16 --layers 16

The weights are random, 1,024 wide; each rank has its part by the model's own plan
(`tp_plan="auto"`). A figure is the median of the rounds, on the first rank.
"""

from __future__ import annotations

import argparse
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

NEW = 16


def settings(port: int, rank: int, ranks: int) -> dict[str, str]:
    one = {"OMP_NUM_THREADS": "1", "ANABRANCH_THREADS": "1"}
    group = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(ranks)}
    return one | group | {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}


def child(given: argparse.Namespace) -> None:
    import torch
    import torch.distributed as dist
    import transformers

    import anabranch

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    first = dist.get_rank() == 0
    folder = os.path.join(given.child, "llama")
    if first:
        config = transformers.LlamaConfig(
            hidden_size=1024,
            intermediate_size=2816,
            vocab_size=32000,
            num_hidden_layers=given.layers,
            num_attention_heads=16,
            num_key_value_heads=4,
        )
        torch.manual_seed(0)
        transformers.LlamaForCausalLM(config).save_pretrained(folder)
    dist.barrier()
    dtype = torch.bfloat16 if given.dtype == "bf16" else torch.float32
    load = transformers.AutoModelForCausalLM.from_pretrained
    model = load(folder, tp_plan="auto", dtype=dtype).eval()
    eager: Callable[..., Any] = model.forward
    options = {"freeze": True}
    run = torch.compile(model.forward, backend=anabranch.anabranch, options=options)
    ids = torch.randint(0, 32000, (1, given.prompt))

    @torch.no_grad()
    def times(forward: Callable[..., Any]) -> tuple[list[float], torch.Tensor]:
        """The seconds of the prompt and of each step, and the tokens."""
        cache = transformers.StaticCache(
            config=model.config, max_cache_len=given.prompt + NEW
        )
        tokens, at, found, words = ids, torch.arange(given.prompt), [], []
        for _ in range(NEW):
            dist.barrier()
            begin = time.perf_counter()
            out = forward(
                input_ids=tokens,
                past_key_values=cache,
                position_ids=at[None],
                use_cache=True,
                logits_to_keep=1,
            )
            tokens, at = out.logits[:, -1:].argmax(-1), at[-1:] + 1
            found.append(time.perf_counter() - begin)
            words.append(tokens)
        return found, torch.cat(words, 1)

    ways = {"eager": eager, "compiled": run}
    tokens = {name: times(way)[1] for name, way in ways.items()}  # compiles
    if dtype == torch.float32:
        assert torch.equal(tokens["eager"], tokens["compiled"]), tokens
    assert anabranch.counters.graphs and not anabranch.counters.eager_graphs
    rounds: dict[str, list[list[float]]] = {name: [] for name in ways}
    for _ in range(given.rounds):
        for name, way in ways.items():
            rounds[name].append(times(way)[0])
    for name, all_times in rounds.items() if first else ():
        prefill = statistics.median(one[0] for one in all_times)
        step = statistics.median(t for one in all_times for t in one[1:])
        print(
            f"| {name} | {dist.get_world_size()} | {given.dtype} |"
            f" {given.prompt / prefill:.0f} | {1 / step:.1f} |",
            flush=True,
        )
    dist.barrier()
    dist.destroy_process_group()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--prompt", type=int, default=256)
    parser.add_argument("--layers", type=int, default=16)
    parser.add_argument("--dtype", choices=("f32", "bf16"), default="f32")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--child", metavar="FOLDER", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        return child(given)
    print("| way | ranks | dtype | prefill, tokens/s | decode, tokens/s |")
    print("|---|---|---|---|---|", flush=True)
    with socket.socket() as free, tempfile.TemporaryDirectory() as folder:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        free.close()
        command = [sys.executable, __file__, *sys.argv[1:], "--child", folder]
        processes = [
            subprocess.Popen(
                command, env=os.environ | settings(port, rank, given.ranks)
            )
            for rank in range(given.ranks)
        ]
        codes = [process.wait() for process in processes]
    if any(codes):
        sys.exit(f"the ranks ended with {codes}")


if __name__ == "__main__":
    main()
