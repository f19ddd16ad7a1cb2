"""A script in several processes that are ranks of one gloo group."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

# What every script starts with: `rank` and `ranks` are numbers.
HEAD = """
import sys
import pytest
import torch
import torch.distributed as dist
import torch_npu
import torchair

rank, ranks, port = map(int, sys.argv[1:])
dist.init_process_group(
    "gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=ranks
)
"""
# What it ends with.
TAIL = """
dist.barrier()
print("done")
dist.destroy_process_group()
"""


def run_ranks(folder: Path, script: str, ranks: int) -> list[str]:
    """Runs the script, between HEAD and TAIL, and gives what each rank printed."""
    path = folder / "ranks.py"
    path.write_text(HEAD + script + TAIL, encoding="utf-8")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(sys.path),
        "OMP_NUM_THREADS": "1",
    }
    running = [
        subprocess.Popen(
            [sys.executable, str(path), str(rank), str(ranks), port],
            cwd=folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(ranks)
    ]
    try:
        printed = [process.communicate(timeout=400)[0] for process in running]
    finally:
        for process in running:
            process.kill()
    for process, text in zip(running, printed):
        assert process.returncode == 0, text
        assert text.endswith("done\n"), text
    return printed
