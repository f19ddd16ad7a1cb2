"""topk and sort give eager's values, and eager's positions.

Among equal elements, kernels of topk take the first. They choose numbers of four and
eight bytes, of which few are equal.
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
    if dtype is not torch.float32:
        assert torch.equal(places, x.topk(count, -1, largest)[1])
        return
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
    run(lambda x: x.float().softmax(-1).topk(8, -1), x)
    assert anabranch.counters.kernels <= 2


SORTED = [torch.int8, torch.bool, torch.int64, *FLOATS, torch.float64]


def of_few_values(dtype: torch.dtype, *sizes: int) -> torch.Tensor:
    """Many equal numbers; of floats a tenth is NaN, and zeros have both signs."""
    x = torch.randint(0, 2 if dtype is torch.bool else 20, sizes).to(dtype)
    if dtype.is_floating_point:
        x = x.masked_fill(torch.rand(sizes) < 0.1, float("nan"))
        x = x * torch.where(torch.rand(sizes) < 0.5, 1.0, -1.0).to(dtype)
    return x


def expect_eager_order(function, *arguments: torch.Tensor) -> None:
    """In symbolic sizes, without an operator of PyTorch's."""
    torch._dynamo.reset()
    compiled = torch.compile(function, backend=anabranch.anabranch, dynamic=True)
    anabranch.counters.reset()
    for x in arguments:
        values, places = compiled(x)
        expected = function(x)
        assert torch.equal(places, expected[1])
        assert same(values, expected[0])
    assert anabranch.counters.fallback_calls == 0


@pytest.mark.parametrize("dtype", SORTED)
@pytest.mark.parametrize("descending", [True, False])
def test_equal_elements_in_the_order_of_eager_sorts(dtype, descending):
    # Eager sorts a single row of integers in another way from 32,768 elements on.
    for shapes in (
        [(7, 9), (5, 3), (17, 2), (200, 4), (3000, 3), (40000, 2)],
        [(9,), (17,), (3000,), (32767,), (32768,)],
    ):
        expect_eager_order(
            lambda x: torch.sort(x, dim=0, descending=descending),
            *[of_few_values(dtype, *shape) for shape in shapes],
        )


@pytest.mark.parametrize("dtype", [d for d in SORTED if d is not torch.bool])
@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("ordered", [True, False])
def test_equal_elements_in_the_order_of_eager_topk(dtype, largest, ordered):
    for count in (0, 1, 3, 50, 200):
        expect_eager_order(
            lambda x: x.topk(count, -1, largest, ordered),  # noqa: B023
            *[of_few_values(dtype, *size) for size in ((7, 209), (5, 200), (2, 13000))],
        )


def test_symbolic_counts():
    expect_eager_order(
        lambda x: x.topk(x.shape[1] // 3 + x.shape[0], 1),
        *[of_few_values(torch.bfloat16, *size) for size in ((2, 9), (3, 700))],
        of_few_values(torch.bfloat16, 2, 5000),
    )


@pytest.mark.parametrize("size", [(4, 16), (4, 17), (3, 60)])
def test_static_sorts_have_the_order_of_eager_sorts(size):
    x = of_few_values(torch.float32, *size)
    values, places = run(lambda x: x.sort(-1), x, dynamic=False)
    assert torch.equal(places, x.sort(-1)[1]) and same(values, x.sort(-1)[0])
