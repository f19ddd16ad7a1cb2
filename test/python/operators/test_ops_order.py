"""topk gives eager's values; of equal elements it takes the first.

PyTorch does not say which of equal elements it takes, so positions are compared
with eager's only where no two elements are equal.
"""

from __future__ import annotations

import pytest
import torch

import anabranch

FLOATS = [torch.float32, torch.bfloat16, torch.float16]


def same(left: torch.Tensor, right: torch.Tensor) -> bool:
    return torch.allclose(left.double(), right.double(), 0, 0, equal_nan=True)


def run(function, x, dynamic=None, fallback=0):
    torch._dynamo.reset()
    anabranch.counters.reset()
    with torch.no_grad():
        values, places = torch.compile(
            function, backend=anabranch.anabranch, dynamic=dynamic
        )(x)
    assert anabranch.counters.fallback_calls == fallback
    return values, places


def special(columns: int) -> torch.Tensor:
    """Rows of NaNs of both signs, of infinities, of zeros of both signs."""
    x = torch.randn(8, columns, generator=torch.Generator().manual_seed(1))
    x[0, 5], x[0, 7] = float("nan"), -float("nan")
    x[1], x[4] = float("-inf"), float("inf")
    x[2], x[2, 1::2] = 0, -0.0
    x[3, : columns - 2] = float("nan")
    x[5] = x[5].round()
    return x


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(
    ("columns", "count"), [(40, 2), (40, 30), (128, 9), (256, 8), (300, 16), (5000, 3)]
)
def test_topk(columns, count, dtype, largest):
    x = special(columns).to(dtype)
    values, places = run(lambda x: x.topk(count, -1, largest), x)
    assert same(values, x.topk(count, -1, largest)[0])
    assert same(x.gather(-1, places), values)
    # Equal elements, except zeros of both signs, come in the order of the row.
    rows = [0, 1, 3, 4, 5, 6, 7]
    order = x.double().sort(dim=-1, descending=largest, stable=True)[1]
    assert torch.equal(places[rows], order[rows, :count])


@pytest.mark.parametrize("dynamic", [False, True])
def test_topk_along_another_dimension(dynamic):
    x = torch.randperm(3 * 200 * 5).reshape(3, 200, 5).float()
    if dynamic:
        torch._dynamo.mark_static(x, 1)
    values, places = run(lambda x: x.topk(4, 1), x, dynamic)
    expected = x.topk(4, 1)
    assert torch.equal(values, expected[0]) and torch.equal(places, expected[1])


def test_router_in_one_kernel():
    """One kernel computes scores of many experts and chooses among them."""
    x = torch.randn(6, 256).bfloat16()
    run(lambda x: x.float().softmax(-1).bfloat16().topk(8, -1), x)
    assert anabranch.counters.kernels <= 2


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64])
@pytest.mark.parametrize("largest", [True, False])
def test_rows_that_are_long_for_a_kernel(dtype, largest):
    """The runtime chooses few and many of them, in the order of a stable sort."""
    x = special(5000).to(dtype) if dtype.is_floating_point else None
    x = torch.randint(-99, 99, (4, 5000)) if x is None else x
    order = x.double().sort(dim=-1, descending=largest, stable=True)[1]
    for count in (0, 1, 9, 600, 2000, 5000):
        values, places = run(lambda x: x.topk(count, -1, largest), x)  # noqa: B023
        # The kernel, which takes few, orders zeros by their signs.
        rows = [0, 1, 3] if count < 9 else [0, 1, 2, 3]
        assert torch.equal(places[rows], order[rows, :count])
        assert same(values, x.gather(-1, places))
        assert same(values, x.topk(count, -1, largest)[0])


def test_symbolic_lengths_and_counts():
    work = lambda x: x.topk(x.shape[1] // 3 + x.shape[0], 1)
    compiled = torch.compile(work, backend=anabranch.anabranch, dynamic=True)
    anabranch.counters.reset()
    for rows, columns in ((2, 9), (3, 700), (2, 5000)):
        x = torch.randint(0, 50, (rows, columns)).bfloat16()
        values, places = compiled(x)
        assert torch.equal(values, work(x)[0])
        order = x.sort(dim=1, descending=True, stable=True)[1]
        assert torch.equal(places, order[:, : values.shape[1]])
    assert anabranch.counters.fallback_calls == 0
