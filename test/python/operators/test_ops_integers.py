"""Our kernels' products of integers equal exact sums in int64."""

from __future__ import annotations

import pytest
import torch
from checking import check, compiled

import anabranch


def int8(*shape: int) -> torch.Tensor:
    return torch.randint(-128, 128, shape, dtype=torch.int8)


@pytest.fixture(autouse=True)
def counted():
    anabranch.counters.reset()
    yield
    assert anabranch.counters.graphs > 0
    assert anabranch.counters.fallback_calls == anabranch.counters.eager_graphs == 0


SHAPES = [(1, 7, 5), (3, 64, 64), (8, 256, 130), (17, 33, 19), (37, 1030, 100)]


@pytest.mark.parametrize(("m", "k", "n"), SHAPES)
@pytest.mark.parametrize("transposed", [False, True])
def test_int_mm(m: int, k: int, n: int, transposed: bool) -> None:
    x = int8(m, k)
    w = int8(n, k).t() if transposed else int8(k, n)
    x[0], w[:, 0] = -128, -128
    found = compiled(torch._int_mm)(x, w)
    assert found.dtype == torch.int32
    assert torch.equal(found.long(), x.long() @ w.long())


def test_sums_beyond_what_a_float_holds() -> None:
    k = 70_000
    x, w = torch.full((2, k), 127, dtype=torch.int8), int8(k, 3)
    w[:, 0], x[1, 0] = 127, 126
    found = compiled(torch._int_mm)(x, w)
    assert torch.equal(found.long(), x.long() @ w.long())


@pytest.mark.parametrize("rows", [1, 8, 40])
def test_a_frozen_weight(rows: int) -> None:
    class Product(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("weight", int8(90, 130))

        def forward(self, x):
            return torch._int_mm(x, self.weight)

    module, x = Product().eval(), int8(rows, 90)
    run = torch.compile(module, backend=anabranch.anabranch, options={"freeze": True})
    with torch.no_grad():
        assert torch.equal(run(x).long(), x.long() @ module.weight.long())


def test_symbolic_sizes() -> None:
    run = compiled(torch._int_mm, dynamic=True)
    for m, k, n in [(3, 20, 40), (40, 133, 70), (9, 64, 65)]:
        x, w = int8(m, k), int8(k, n)
        assert torch.equal(run(x, w).long(), x.long() @ w.long())


@pytest.mark.parametrize(
    "dtype", [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]
)
def test_sums_wrap_as_in_eager(dtype: torch.dtype) -> None:
    low, high = torch.iinfo(dtype).min, torch.iinfo(dtype).max
    x = torch.randint(low, high, (3, 5, 40), dtype=dtype)
    y = torch.randint(low, high, (3, 40, 6), dtype=dtype)
    b = torch.randint(low, high, (5, 6), dtype=dtype)

    def products(x, y, b):
        return x @ y, x[0] @ y[0], torch.addmm(b, x[0], y[0]), x[0] @ y[0, :, 0]

    check(products, x, y, b)


def test_widened_operands_are_read_narrow() -> None:
    x, y = int8(2, 9, 33), int8(2, 33, 21)
    check(lambda x, y: x.int() @ y.int(), x, y)


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16, torch.int8])
@pytest.mark.parametrize("rows", [1, 6, 50])
def test_epilogues(kind: torch.dtype, rows: int) -> None:
    """Epilogues scale, shift and round the sums of a product with eager's bits."""

    def scaled(x, w, scale, token, bias, whole):
        total = torch._int_mm(x, w) + whole
        value = total.float() * scale * token.unsqueeze(-1) + bias.float()
        if kind == torch.int8:
            return value.round().clamp(-128, 127).to(kind)
        return value.to(kind)

    n = 77
    arguments = (int8(rows, 200), int8(200, n), torch.rand(n) * 1e-3, torch.rand(rows))
    arguments += (torch.randn(n).bfloat16(), torch.randint(-99, 99, (n,)).int())
    check(scaled, *arguments, tolerance={"rtol": 0, "atol": 0})
    assert anabranch.counters.kernels == 1


@pytest.mark.parametrize("rows", [1, 5, 40])
def test_unsigned_bytes_times_signed_bytes(rows):
    """Includes the largest bytes: sums of two products exceed 16 bits."""
    x = torch.randint(0, 256, (rows, 70), dtype=torch.uint8)
    w = torch.randint(-128, 128, (70, 33), dtype=torch.int8)
    x[0], w[:, 0], w[:, 1] = 255, -128, 127
    assert torch.equal(compiled(torch._int_mm)(x, w), x.int() @ w.int())
