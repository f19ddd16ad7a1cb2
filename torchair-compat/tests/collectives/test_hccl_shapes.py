"""Collectives of "hccl" groups take tensors of any shapes that hold as many elements, and
lists of different sizes, as on NPUs: in eager code and in graphs."""

from __future__ import annotations

from ranks import run_ranks

SCRIPT = """
dist.destroy_process_group()
dist.init_process_group(
    "hccl", init_method=f"file://{os.getcwd()}/meeting", rank=rank, world_size=ranks
)


def of(r, *shape):
    return torch.arange(float(torch.Size(shape).numel())).view(shape) + 100 * r


def gather(outputs, x):
    dist.all_gather(outputs, x * 1)
    return outputs


def gather_into(output, x):
    dist.all_gather_into_tensor(output, x * 1)
    return output


def scatter(output, x):
    dist.reduce_scatter_tensor(output, x * 1)
    return output


def exchange(outputs, given):
    dist.all_to_all(outputs, [x * 1 for x in given])
    return outputs


whole = torch.cat([of(r, 4) for r in range(2)])
total = of(0, 4) + of(1, 4)
CASES = [
    (gather, [torch.zeros(4, 1), torch.zeros(1, 4)], of(rank, 2, 2)),
    (gather, [torch.zeros(2, 3), torch.zeros(2)], of(rank, 3 - 2 * rank, 2)),
    (gather_into, torch.zeros(4, 2), of(rank, 2, 2)),
    (gather_into, torch.zeros(2, 2, 2), of(rank, 2, 2)),
    (gather_into, torch.zeros(8, 1), of(rank, 1, 4)),
    (scatter, torch.zeros(2), of(rank, 4)),
    (scatter, torch.zeros(2), of(rank, 2, 2)),
    (exchange, [torch.zeros(1, 2) for _ in range(2)], list(of(rank, 2, 2).split(1))),
    (exchange, [torch.zeros(0, 2), torch.zeros(1, 2)], [of(rank, rank, 2)] * 2),
]
WANTED = [
    [of(r, 2, 2) for r in range(2)],
    [of(r, 3 - 2 * r, 2) for r in range(2)],
    whole,
    whole,
    whole,
    total[2 * rank :][:2],
    total[2 * rank :][:2],
    [of(r, 2, 2)[rank] for r in range(2)],
    [of(r, r, 2) for r in range(2)],
]
for (function, output, given), wanted in zip(CASES, WANTED):
    backend = torchair.get_npu_backend()
    compiled = torch.compile(function, backend=backend, fullgraph=True, dynamic=False)
    for run in (function, compiled):
        found = run(output, given)
        found, wanted = ([x] if torch.is_tensor(x) else x for x in (found, wanted))
        for part, right in zip(found, wanted, strict=True):
            torch.testing.assert_close(part.flatten(), right.flatten(), rtol=0, atol=0)
        for part in [output] if torch.is_tensor(output) else output:
            part.zero_()

with pytest.raises(Exception, match="not compatible for all_gather_into_tensor"):
    run = torch.compile(gather_into, backend=backend, fullgraph=True)
    run(torch.zeros(3), of(rank, 2))
"""


def test_shapes_that_hold_as_many_elements(tmp_path) -> None:
    run_ranks(tmp_path, SCRIPT, 2)
