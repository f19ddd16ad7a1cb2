"""Collectives inside of graphs, in a group of two processes."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

import pytest

SCRIPT = """
import sys
import warnings
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
import anabranch

rank, port = map(int, sys.argv[1:])
dist.init_process_group(
    "gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2
)


def reduced(x):
    y = x * 2
    dist.all_reduce(y)
    return y + 1


def reduced_in_place(x):
    dist.all_reduce(x, op=dist.ReduceOp.MAX)
    return x + 1


def gathered(x):
    out = torch.empty(2 * x.shape[0], x.shape[1])
    dist.all_gather_into_tensor(out, x + 1)
    return out * 2


def gathered_as_list(x):
    parts = [torch.empty_like(x) for _ in range(2)]
    dist.all_gather(parts, x)
    return parts[0] - parts[1]


def scattered(x):
    out = torch.empty(x.shape[0] // 2, x.shape[1])
    dist.reduce_scatter_tensor(out, x * 3)
    return out + 1


def exchanged(x):
    out = torch.empty_like(x)
    dist.all_to_all_single(out, x + 1)
    return out * 2


def several(x):
    first, second = functional.all_reduce_coalesced(
        [x, x * 2], "sum", dist.group.WORLD
    )
    return first + second


def on_streams(x):
    with anabranch.stream("transfer"):
        y = functional.all_reduce(x + 1, "sum", dist.group.WORLD)
    return y * (x @ x.t()).sum()


for function in (
    reduced, reduced_in_place, gathered, gathered_as_list, scattered, exchanged,
    several, on_streams,
):
    torch._dynamo.reset()
    anabranch.counters.reset()
    run = torch.compile(function, backend=anabranch.anabranch, fullgraph=True)
    with torch.no_grad():
        for call in range(5):
            x = torch.randn(512, 64) + rank
            other = x.clone()
            expected = function(x)
            torch.testing.assert_close(run(other), expected)
            assert torch.equal(x, other), function
    assert anabranch.counters.eager_graphs == 0, function
    assert anabranch.counters.fallback_calls > 0, function


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.cached = anabranch.cache_compile(self.run, cache_dir=f"cache{rank}")

    def run(self, x):
        return reduced(x)


x = torch.randn(4, 4)
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    torch.testing.assert_close(Model().cached(x), reduced(x))
assert any("collectives" in str(warning.message) for warning in told)
print("equal")
dist.destroy_process_group()
"""


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


@pytest.mark.filterwarnings("ignore")
def test_collectives_wait_for_their_results(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    port = free_port()
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(sys.path),
        "ANABRANCH_CACHE": "0",
    }
    ranks = [
        subprocess.Popen(
            [sys.executable, "script.py", str(rank), str(port)],
            cwd=tmp_path,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    try:
        done = [rank.communicate(timeout=400) for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    for output, errors in done:
        assert output.endswith("equal\n"), errors
