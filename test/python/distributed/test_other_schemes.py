"""Compiled modules in FSDP2, data parallel and pipelines compute eager's values. Only
the test of pipelines asserts that Anabranch compiles them: in the other schemes Dynamo
leaves the modules to PyTorch."""

from __future__ import annotations

import pytest
from gloo_ranks import EXIT_AT_ONCE, run_ranks

MODEL = """
def model():
    torch.manual_seed(0)
    return torch.nn.Sequential(*[
        torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.GELU(), torch.nn.Linear(64, 32))
        for _ in range(2)
    ]).eval()


x = torch.randn(4, 32, generator=torch.Generator().manual_seed(rank))
whole = model()
"""

FSDP = (
    MODEL
    + """
from torch.distributed.fsdp import fully_shard

for inside in (False, True):
    sharded = model()
    for block in sharded:
        fully_shard(block)
    fully_shard(sharded)
    with torch.no_grad():
        if inside:
            torch._dynamo.reset()
            for block in sharded:
                block.compile(backend="anabranch")
            run = sharded
        else:
            run = compiled(sharded)
        for _ in range(2):
            torch.testing.assert_close(run(x), whole(x))
    # One step of training: gradients are scattered.
    y = run(x).square().sum()
    y.backward()
    whole.zero_grad()
    whole(x).square().sum().backward()
    for mine, theirs in zip(sharded.parameters(), whole.parameters()):
        summed = theirs.grad.clone()
        dist.all_reduce(summed, op=dist.ReduceOp.SUM)
        torch.testing.assert_close(mine.grad.full_tensor(), summed / ranks)
"""
)

DDP = (
    MODEL
    + """
wrapped = torch.nn.parallel.DistributedDataParallel(model())
run = compiled(wrapped)
with torch.no_grad():
    torch.testing.assert_close(run(x), whole(x))
run(x).square().sum().backward()
whole(x).square().sum().backward()
for mine, theirs in zip(wrapped.parameters(), whole.parameters()):
    dist.all_reduce(theirs.grad)
    torch.testing.assert_close(mine.grad, theirs.grad / ranks)
"""
)

PIPELINE = (
    MODEL
    + """
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

parts = model()
mine = compiled(parts[rank])
batch = torch.randn(8, 32, generator=torch.Generator().manual_seed(5))
stage = PipelineStage(mine, rank, ranks, torch.device("cpu"))
schedule = ScheduleGPipe(stage, n_microbatches=4)
with torch.no_grad():
    for _ in range(2):
        out = schedule.eval(batch) if rank == 0 else schedule.eval()
        if rank == ranks - 1:
            torch.testing.assert_close(out, whole(batch))
assert anabranch.counters.graphs > 0 and anabranch.counters.eager_graphs == 0
"""
)


@pytest.mark.parametrize(
    ("script", "end"),
    [(FSDP, EXIT_AT_ONCE), (DDP, ""), (PIPELINE, "")],
    ids=["fsdp", "ddp", "pipeline"],
)
def test_two_ranks(tmp_path, script, end) -> None:
    run_ranks(tmp_path, script, 2, end)
