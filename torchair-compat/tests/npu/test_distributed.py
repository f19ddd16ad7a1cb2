"""Collectives of torch_npu.distributed in two processes, in graphs and outside."""

import os
import socket
import subprocess
import sys

SCRIPT = """
import sys
import pytest
import torch
import torch.distributed as dist
import torch_npu
import torch_npu.distributed
import torchair

rank, port = map(int, sys.argv[1:])
dist.init_process_group(
    "gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2
)
gather = torch_npu.distributed.all_gather_into_tensor_uneven
scatter = torch_npu.distributed.reduce_scatter_tensor_uneven


def rows(count, seed):
    return torch.randn(count, 4, generator=torch.Generator().manual_seed(seed))


def gathered(x, out, sizes):
    gather(out, x * 2, sizes)
    return out + 1


def scattered(x, out, sizes, op):
    scatter(out, x * 2, sizes, op)
    return out + 1


def both(function):
    yield function
    backend = torchair.get_npu_backend()
    yield torch.compile(function, backend=backend, fullgraph=True, dynamic=False)


for sizes in ([3, 2], [0, 4], None, [2, 2]):
    each = sizes or [2, 2]
    for run in both(gathered):
        out = torch.zeros(sum(each), 4)
        found = run(rows(each[rank], rank), out, sizes)
        wanted = torch.cat([rows(count, r) * 2 for r, count in enumerate(each)])
        assert torch.equal(out, wanted), (sizes, out, wanted)
        assert torch.equal(found, wanted + 1)
    start = sum(each[:rank])
    for op, fold in ((dist.ReduceOp.SUM, torch.add), (dist.ReduceOp.MAX, torch.maximum)):
        for run in both(scattered):
            out = torch.zeros(each[rank], 4)
            found = run(rows(sum(each), rank), out, sizes, op)
            whole = fold(rows(sum(each), 0) * 2, rows(sum(each), 1) * 2)
            wanted = whole[start : start + each[rank]]
            torch.testing.assert_close(out, wanted)
            torch.testing.assert_close(found, wanted + 1)
    torch._dynamo.reset()

x, out = rows(2, 0), torch.zeros(4, 4)
with pytest.raises(ValueError, match="Can't remap async version of inplace op"):
    gather(out, x, async_op=True)
with pytest.raises(AssertionError, match="Split sizes sum does not match total dim 0"):
    gather(out, x, [2, 3])
with pytest.raises(AssertionError, match="3 split sizes for 2 ranks"):
    scatter(x, out, [2, 1, 1])
with pytest.raises(AssertionError, match="has 2 rows, and the split size of this rank"):
    gather(out, x, [1, 3])
with pytest.raises(AssertionError, match="can't be split evenly"):
    gather(torch.zeros(5, 4), x)
dist.barrier()
print("done")
dist.destroy_process_group()
"""


def test_uneven_collectives(tmp_path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    script = tmp_path / "ranks.py"
    script.write_text(SCRIPT)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    ranks = [
        subprocess.Popen(
            [sys.executable, str(script), str(rank), port],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(2)
    ]
    try:
        for rank in ranks:
            text = rank.communicate(timeout=300)[0]
            assert rank.returncode == 0, text
            assert text.endswith("done\n")
    finally:
        for rank in ranks:
            rank.kill()
