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


SMALL = """
name = dist.group.WORLD._get_backend(torch.device("npu")).get_hccl_comm_name(rank)
M, K, N = 4, 64, 6


def drawn(seed, *shape):
    torch.manual_seed(seed)
    return torch.randn(*shape)


def every_way(function, *arguments):
    yield function(*arguments)
    backend = torchair.get_npu_backend()
    yield torch.compile(function, backend=backend, fullgraph=True)(*arguments)


def mx(values):
    return torch_npu.npu_dynamic_mx_quant(values, dst_type=torch.float8_e4m3fn)


def exact(stored, scales):
    factors = 2.0 ** (scales.view(torch.uint8).double().flatten(-2) - 127)
    return stored.double() * factors.repeat_interleave(32, -1)[..., : stored.shape[-1]]


def of(r):
    return mx(drawn(r, M, K).bfloat16()), mx(drawn(50 + r, N, K).bfloat16())


(x, xs), (w, ws) = of(rank)
wanted = sum(exact(*a) @ exact(*b).t() for a, b in map(of, range(ranks)))


def reduced(x, w, ws, xs):
    return torch_npu.npu_mm_all_reduce_base(
        x, w.t(), name, dequant_scale=ws.transpose(0, 1), pertoken_scale=xs,
        y_dtype=torch.float32, dequant_scale_dtype=torch_npu.float8_e8m0fnu,
        pertoken_scale_dtype=torch_npu.float8_e8m0fnu, group_sizes=[1, 1, 32],
    )


for made in every_way(reduced, x, w, ws, xs):
    torch.testing.assert_close(made.double(), wanted, atol=1e-3, rtol=1e-4)

# float8 with scales of blocks
def blocks(r):
    return drawn(r, M, K).to(torch.float8_e4m3fn), drawn(9 + r, K, N).to(torch.float8_e5m2)


column = torch.full((1, 1), 0.5)


def of_blocks(x, w, rows):
    return torch_npu.npu_mm_all_reduce_base(
        x, w, name, dequant_scale=column, pertoken_scale=rows, y_dtype=torch.float32,
        group_sizes=[1, 128, 128],
    )


rows = torch.arange(1.0, M + 1).reshape(M, 1)
wanted = sum((a.double() * rows) @ b.double() * 0.5 for a, b in map(blocks, range(ranks)))
for made in every_way(of_blocks, *blocks(rank), rows):
    torch.testing.assert_close(made.double(), wanted, atol=1e-3, rtol=1e-4)

# ranks send int8
def integers(r):
    torch.manual_seed(r)
    return [torch.randint(-9, 9, s, dtype=torch.int8) for s in ((M, K), (K, N))]


first, second = (drawn(s, 1, N).abs().half() + 1 for s in (70, 71))
scale = torch.full((N,), 0.1)


def sent(x, w, first, second):
    return torch_npu.npu_mm_all_reduce_base(
        x, w, name, dequant_scale=scale, comm_quant_scale_1=first * 2,
        comm_quant_scale_2=second * 2,
    )


def rounded(values):
    return values.round().clamp(-128, 127)


steps = 2 * first.double(), 2 * second.double()
total = 0
for a, b in map(integers, range(ranks)):
    product = (a.double() @ b.double() * 0.1).half().double()
    total = total + rounded(product / steps[0]) * steps[0]
for made in every_way(sent, *integers(rank), first, second):
    assert made.dtype == torch.float16
    # A sum halfway between two steps may be rounded to the other one.
    assert (made.double() - total).abs().le(steps[1] * 0.5 + 0.1).all()
    gathered = [torch.zeros_like(made) for _ in range(ranks)]
    dist.all_gather(gathered, made)
    assert torch.equal(*gathered)
    grid = made.double() / steps[1]
    assert (grid - grid.round()).abs().max() < 0.05
xi, wi = integers(rank)
for options, text in (
    ({"comm_quant_scale_1": first}, "comm_quant_scale_2 is needed beside"),
    ({"comm_quant_scale_1": first.float(), "comm_quant_scale_2": second},
     "comm_quant_scale_1 must be float16"),
    ({"comm_quant_scale_1": first[:, :2], "comm_quant_scale_2": second},
     "comm_quant_scale_1 must have shape"),
    ({"y_dtype": torch.float16}, "output_dtype must be None but for small floats"),
):
    with pytest.raises(RuntimeError, match="npu_mm_all_reduce_base: " + text):
        torch_npu.npu_mm_all_reduce_base(xi, wi, name, dequant_scale=scale, **options)
with pytest.raises(RuntimeError, match="comm_quant_scale_1 is for x1 of int8"):
    torch_npu.npu_mm_all_reduce_base(
        xi.half(), wi.half(), name, comm_quant_scale_1=first, comm_quant_scale_2=second
    )
print("done")
"""


def test_sums_of_small_products_and_of_int8(tmp_path) -> None:
    assert all("done" in output for output in run_ranks(tmp_path, SMALL, 2))
