"""Products of small floats joined to collectives, on two ranks, against float64."""

from __future__ import annotations

from exchange_script import EXCHANGES
from ranks import run_ranks

SCRIPT = """
name = dist.group.WORLD._get_backend(torch.device("npu")).get_hccl_comm_name(rank)
M, K, N = 4, 64, 6
F8, E8 = torch.float8_e4m3fn, torch.float8_e8m0fnu
HALF, BF16 = 5, 15


def of(r):
    torch.manual_seed(r)
    x, w = torch.randn(M, K).to(F8), torch.randn(K, N).to(F8)
    return x, w, torch.rand(M) + 0.1, torch.rand(N) + 0.1, torch.randn(N)


def blocks(r):
    torch.manual_seed(50 + r)
    rows = torch.randint(-3, 3, (M, 1, 2)), torch.randint(-3, 3, (1, N, 2))
    return [(2.0 ** t).to(E8) for t in rows]


def factor(scale):
    return scale.float().double().repeat_interleave(32, -1).flatten(-2)


def eager_and_compiled(function, *arguments):
    yield function(*arguments)
    backend = torchair.get_npu_backend()
    yield torch.compile(function, backend=backend, fullgraph=True)(*arguments)


def close(found, wanted):
    torch.testing.assert_close(found.double(), wanted, atol=0.3, rtol=2e-2)


every = [of(r) for r in range(ranks)]
x, w, row, column, bias = every[rank]
parts = [
    a.double() @ b.double() * c.double()[:, None] * d.double() + e.double()
    for a, b, c, d, e in every
]
own = slice(rank * M // ranks, (rank + 1) * M // ranks)


def scattered(x, w, row, column, bias):
    return torch_npu.npu_quant_mm_reduce_scatter(
        x, w, name, ranks, bias=bias, x1_scale=row, x2_scale=column, y_dtype=HALF
    )


for made, largest in eager_and_compiled(scattered, x, w, row, column, bias):
    assert made.dtype == torch.float16 and largest.numel() == 0
    close(made, sum(parts)[own])


def gathered(x, w, row, column, bias):
    return torch_npu.npu_all_gather_quant_mm(
        x, w, name, ranks, bias=bias, x1_scale=row, x2_scale=column, y_dtype=BF16
    )


rows = torch.cat([a.double() for a, *_ in every])
scales = torch.cat([c.double() for _, _, c, _, _ in every])[:, None]
wanted = rows @ w.double() * scales * column.double() + bias.double()
for made, all_rows, largest in eager_and_compiled(gathered, x, w, row, column, bias):
    assert made.dtype == torch.bfloat16 and largest.numel() == 0
    assert torch.equal(all_rows.float().double(), rows)
    close(made, wanted)

# Blocks of 32 elements with scales that are powers of two.
mx = [blocks(r) for r in range(ranks)]
told = {"y_dtype": HALF, "group_sizes": [1, 1, 32]}
made, _ = torch_npu.npu_quant_mm_reduce_scatter(
    x, w, name, ranks, x1_scale=mx[rank][0], x2_scale=mx[rank][1], **told
)
parts = [
    (a.double() * factor(s)) @ (b.double() * factor(t.squeeze(0).unsqueeze(1)).t())
    for (a, b, *_), (s, t) in zip(every, mx)
]
close(made, sum(parts)[own])
made, _, _ = torch_npu.npu_all_gather_quant_mm(
    x, w, name, ranks, x1_scale=mx[rank][0], x2_scale=mx[rank][1], **told
)
wide = torch.cat([a.double() * factor(s) for (a, *_), (s, _) in zip(every, mx)])
close(made, wide @ (w.double() * factor(mx[rank][1].squeeze(0).unsqueeze(1)).t()))

# Floats have no scales, and one element is the scale of all rows.
made, _ = torch_npu.npu_quant_mm_reduce_scatter(x.float(), w.float(), name, ranks)
close(made, sum(a.double() @ b.double() for a, b, *_ in every)[own])
one = torch.tensor([0.5])
made, kept, _ = torch_npu.npu_all_gather_quant_mm(
    x, w, name, ranks, x1_scale=one, x2_scale=one, y_dtype=HALF, gather_output=False
)
close(made, rows @ w.double() / 4)
assert kept.numel() == 0

right = {"x1_scale": row, "x2_scale": column, "y_dtype": HALF}
for change, text in (
    ({"y_dtype": None}, "y_dtype is needed for small floats"),
    ({"x2_scale": None}, "x2_scale is needed for small floats"),
    ({"reduce_op": "max"}, "reduce_op must be sum, got 'max'"),
    ({"group_sizes": [1, 2, 3]}, "group_sizes must be None, zeros, or"),
    ({"comm_turn": 1}, "comm_turn must be 0, got 1"),
    ({"comm_mode": "no such"}, "comm_mode must be one of"),
    ({"bias": bias[:3]}, "bias must have shape"),
    ({"x1_dtype": 12345}, "x1_dtype"),
):
    with pytest.raises(RuntimeError, match=f"npu_quant_mm_reduce_scatter: .*{text}"):
        torch_npu.npu_quant_mm_reduce_scatter(x, w, name, ranks, **{**right, **change})
with pytest.raises(RuntimeError, match="world_size must be that of .*, 2, got 5"):
    torch_npu.npu_all_gather_quant_mm(x, w, name, 5, **right)
with pytest.raises(RuntimeError, match="gather_index must be 0, got 1"):
    torch_npu.npu_all_gather_quant_mm(x, w, name, 2, gather_index=1, **right)
with pytest.raises(NotImplementedError, match="amax_output must be False, got True"):
    torch_npu.npu_all_gather_quant_mm(x, w, name, 2, amax_output=True, **right)
print("done")
"""


def test_products_of_two_ranks(tmp_path) -> None:
    outputs = run_ranks(tmp_path, SCRIPT + EXCHANGES, 2)
    assert all("done" in output for output in outputs)
    assert all("exchanged" in output for output in outputs)
