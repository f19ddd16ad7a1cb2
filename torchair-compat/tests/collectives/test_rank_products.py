"""Products joined to collectives, on two ranks, against float64."""

from __future__ import annotations

import pytest

from ranks import run_ranks

SCRIPT = """
name = dist.group.WORLD._get_backend(torch.device("npu")).get_hccl_comm_name(rank)
M, K, N = 4, 32, 6


def drawn(r, *shape, kind=KIND):
    torch.manual_seed(r)
    if kind == torch.int8:
        return torch.randint(-9, 9, shape, dtype=torch.int8)
    return torch.randn(*shape).to(kind)


def of(r):
    return drawn(r, M, K), drawn(100 + r, K, N), drawn(200 + r, N)


def eager_and_compiled(function, *arguments):
    yield function(*arguments)
    backend = torchair.get_npu_backend()
    yield torch.compile(function, backend=backend, fullgraph=True)(*arguments)


def close(found, wanted):
    rough = found.dtype != torch.float32
    near = dict(atol=0.2, rtol=3e-2) if rough else dict(atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(found.double(), wanted, **near)


x, w, b = of(rank)
every = [[t.double() for t in of(r)] for r in range(ranks)]
products = [a @ c + d for a, c, d in every]
rows = torch.cat([a for a, _, _ in every])


def gathered(x, w, b):
    return torch_npu.npu_all_gather_base_mm(x, w, name, ranks, bias=b)


for made, all_rows in eager_and_compiled(gathered, x, w, b):
    close(made, rows @ w.double() + b.double())
    assert torch.equal(all_rows.double(), rows)


def scattered(x, w, b):
    return torch_npu.npu_mm_reduce_scatter_base(x, w, name, ranks, bias=b)


part = M // ranks
for made in eager_and_compiled(scattered, x, w, b):
    close(made, sum(products)[rank * part : rank * part + part])


def reduced(x, w, b, more):
    return torch_npu.npu_mm_all_reduce_base(x, w, name, bias=b, x3=more)


more = torch.ones(2, 2, N).to(KIND)
for made in eager_and_compiled(reduced, x.reshape(2, 2, K), w, b, more):
    close(made, sum(products).reshape(2, 2, N) + ranks)

wide = drawn(300, K * ranks, N)


def exchanged(x, w):
    return torch_npu.npu_all_to_all_matmul(x, w, name, ranks)


mine = torch.cat([a[rank * part : rank * part + part] for a, _, _ in every], 1)
for made, parts in eager_and_compiled(exchanged, x, wide):
    assert torch.equal(parts.double(), mine)
    close(made, mine @ wide.double())


def sent(x, w, b):
    return torch_npu.npu_matmul_all_to_all(x, w, name, ranks, b)


columns = N // ranks
for made in eager_and_compiled(sent, x, w, b):
    wanted = [p[:, rank * columns : (rank + 1) * columns] for p in products]
    close(made, torch.cat(wanted))

# int8 with scales
xi, wi = drawn(rank, M, K, kind=torch.int8), drawn(400 + rank, K, N, kind=torch.int8)
row, column = torch.rand(M, 1), torch.rand(1, N)
made = torch_npu.npu_mm_reduce_scatter_base(
    xi, wi, name, ranks, x1_scale=row, x2_scale=column, output_dtype=torch.float16
)
pairs = []
for r in range(ranks):
    a, c = drawn(r, M, K, kind=torch.int8), drawn(400 + r, K, N, kind=torch.int8)
    pairs.append((a.double(), c.double()))
near = dict(atol=1.0, rtol=1e-2)
both = [torch.zeros_like(row) for _ in range(ranks)], [torch.zeros_like(column) for _ in range(ranks)]
dist.all_gather(both[0], row)
dist.all_gather(both[1], column)
total = sum((a @ c) * s.double() * t.double() for (a, c), s, t in zip(pairs, *both))
torch.testing.assert_close(made.double(), total[rank * part : rank * part + part], **near)
made, _ = torch_npu.npu_all_gather_base_mm(
    xi, wi, name, ranks, x1_scale=row, x2_scale=torch_npu.npu_trans_quant_param(column)
)
assert made.dtype == torch.float16
scales = torch.cat(both[0]).double() * column.double()
wanted = torch.cat([a for a, _ in pairs]) @ wi.double() * scales
torch.testing.assert_close(made.double(), wanted, **near)
made = torch_npu.npu_mm_all_reduce_base(
    xi, wi, name, dequant_scale=column, pertoken_scale=row[:, 0]
)
torch.testing.assert_close(made.double(), total, **near)
half = x.half()
made = torch_npu.npu_mm_all_reduce_base(
    half, wi, name, antiquant_scale=column.half(), antiquant_offset=column.half()
)
terms = [
    of(r)[0].half().double()
    @ ((pairs[r][1] + t.half().double()) * t.half().double())
    for r, t in enumerate(both[1])
]
torch.testing.assert_close(made.double(), sum(terms), **near)
for call, text in (
    (lambda: torch_npu.npu_all_gather_base_mm(x, w, name, 5),
     "npu_all_gather_base_mm: world_size must be that of .*, 2, got 5"),
    (lambda: torch_npu.npu_mm_reduce_scatter_base(x[:3], w, name, 2),
     "npu_mm_reduce_scatter_base: 2 ranks must divide the rows of self, 3"),
    (lambda: torch_npu.npu_mm_all_reduce_base(x, w, name, reduce_op="max"),
     "npu_mm_all_reduce_base: reduce_op must be sum, got 'max'"),
    (lambda: torch_npu.npu_matmul_all_to_all(x, w[:, :5], name, 2),
     "npu_matmul_all_to_all: 2 ranks must divide the columns of x2, 5"),
    (lambda: torch_npu.npu_all_to_all_matmul(x, w, name, 2, all2all_axes=[0, 1]),
     "npu_all_to_all_matmul: all2all_axes must be"),
):
    with pytest.raises(RuntimeError, match=text):
        call()
print("done")
"""


@pytest.mark.parametrize("kind", ["torch.float32", "torch.bfloat16"])
def test_products_of_two_ranks(tmp_path, kind) -> None:
    outputs = run_ranks(tmp_path, SCRIPT.replace("KIND", kind), 2)
    assert all("done" in output for output in outputs)
