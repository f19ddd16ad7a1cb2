"""A script in several processes that are ranks of one gloo group."""

from __future__ import annotations

import socket
from pathlib import Path

from script_server import Script, server

# The beginning of every script: it defines `rank` and `ranks`.
HEAD = """
import datetime
import os
import sys
import torch
import torch.distributed as dist
import anabranch

rank, ranks, port = map(int, sys.argv[1:])
torch.set_num_threads(1)
os.environ |= {
    "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(ranks),
    "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
}
dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=300))


def compiled(function, **more):
    torch._dynamo.reset()
    anabranch.counters.reset()
    return torch.compile(function, backend=anabranch.anabranch, **more)


def check_whole(calls):
    \"\"\"Every graph was compiled; PyTorch runs these many calls of each kind.\"\"\"
    assert anabranch.counters.eager_graphs == 0
    assert anabranch.counters.fallback_calls == calls, anabranch.counters
"""
# The end of every script.
TAIL = """
dist.barrier()
print("done")
dist.destroy_process_group()
"""


def start_ranks(
    folder: Path, script: str, ranks: int, modules: tuple[str, ...] = ()
) -> list[Script]:
    """Ranks are forked from two servers in turns, so that neighbours order sets
    differently, as ranks on two hosts do. The servers have imported the modules."""
    path = folder / "ranks.py"
    path.write_text(HEAD + script, encoding="utf-8")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    threads = {"OMP_NUM_THREADS": "1", "ANABRANCH_THREADS": "1"}
    return [
        server(rank % 2, modules, **threads).start(
            path, [str(rank), str(ranks), port], folder, **threads
        )
        for rank in range(ranks)
    ]


# Ends the process without the end of the interpreter, in which a thread of PyTorch's
# that still has gradients of FSDP can end it by std::terminate.
EXIT_AT_ONCE = """
sys.stdout.flush()
os._exit(0)
"""


def run_ranks(
    folder: Path,
    script: str,
    ranks: int,
    end: str = "",
    modules: tuple[str, ...] = (),
) -> list[str]:
    """Runs the script between HEAD and TAIL, and then `end`. Returns the output of each
    rank."""
    running = start_ranks(folder, script + TAIL + end, ranks, modules)
    try:
        printed = [process.communicate(timeout=500)[0] for process in running]
    finally:
        for process in running:
            process.kill()
    for process, text in zip(running, printed):
        assert process.returncode == 0, text
        assert text.endswith("done\n"), text
    return printed
