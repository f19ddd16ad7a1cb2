"""Sums and products by index of floats of two bytes, where many updates meet in one
element: as near to float64 as one rounding of the result, and so at most twice as far as
eager PyTorch's, which rounds after each update for some operators and once for others."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from checking import compiled
from hypothesis import given, settings
from hypothesis import strategies as st

import anabranch


def _along(i: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return i.view(-1, *[1] * (y.dim() - 1)).expand_as(y)


def _reduced(name: str, include_self: bool = True) -> Callable:
    return lambda x, i, y: x.scatter_reduce(
        0, _along(i, y), y, name, include_self=include_self
    )


OPERATORS: dict[str, Callable] = {
    "index_add": lambda x, i, y: x.index_add(0, i, y),
    "index_add alpha": lambda x, i, y: x.index_add(0, i, y, alpha=0.37),
    "scatter_add": lambda x, i, y: x.scatter_add(0, _along(i, y), y),
    "sum": _reduced("sum"),
    "sum without self": _reduced("sum", False),
    "mean": _reduced("mean"),
    "mean without self": _reduced("mean", False),
    "product": _reduced("prod"),
    "index_put": lambda x, i, y: x.index_put((i,), y, accumulate=True),
    "in place": lambda x, i, y: x.clone().index_add_(0, i, y),
    "gradient of a lookup": lambda x, i, y: torch.ops.aten.embedding_dense_backward(
        y, i, len(x), -1, False
    ),
}
# Half of the distance between two numbers, as a part of them; the least numbers.
HALF = {torch.bfloat16: 2.0**-8, torch.float16: 2.0**-11, torch.float32: 2.0**-24}
LEAST = {torch.bfloat16: 2.0**-133, torch.float16: 2.0**-25, torch.float32: 2.0**-150}


def _updates(name: str, count: int, wide: tuple[int, ...], dtype: torch.dtype):
    y = torch.randn(count, *wide)
    return (1 + y / 16 if name == "product" else y).to(dtype)


@settings(max_examples=6, deadline=None)
@given(
    dtype=st.sampled_from(list(HALF)),
    places=st.integers(1, 9),
    count=st.integers(1, 400),
    wide=st.sampled_from([(), (1,), (16,), (45,), (3, 20)]),
    seed=st.integers(0, 2**16),
)
@pytest.mark.parametrize("name", OPERATORS)
def test_one_rounding(name, dtype, places, count, wide, seed) -> None:
    if name == "gradient of a lookup" and len(wide) != 1:
        wide = (16,)
    torch._dynamo.reset()  # each example is a function of its own
    torch.manual_seed(seed)
    function = OPERATORS[name]
    x = torch.randn(places, *wide).to(dtype)
    y, i = _updates(name, count, wide, dtype), torch.randint(0, places, (count,))
    before = anabranch.counters.fallback_calls
    found = compiled(function, fullgraph=True)(x, i, y)
    assert anabranch.counters.fallback_calls == before
    assert found.dtype == dtype
    exact = function(x.double(), i, y.double())
    # What sums in f32 lose: a rounding of each update.
    terms = function(x.double().abs(), i, y.double().abs())
    lost = (count + 2) * 2.0**-24 * terms
    bound = HALF[dtype] * (1 + 1e-3) * exact.abs() + lost + LEAST[dtype]
    error = (found.double() - exact).abs()
    assert bool((error <= bound).all())
    eager = (function(x, i, y).double() - exact).abs().max()
    assert error.max() <= 2 * eager + lost.max() + LEAST[dtype]


FEW = {
    name: OPERATORS[name] for name in ("index_add", "index_add alpha", "scatter_add")
}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", FEW)
def test_few_updates_of_a_large_tensor(name, dtype) -> None:
    """Updates that meet are added before they are rounded, and the rest stays as it is."""
    torch._dynamo.reset()
    torch.manual_seed(1)
    function = FEW[name]
    x, y = torch.randn(4096, 20).to(dtype), torch.randn(24, 20).to(dtype)
    i = torch.randint(7, 12, (24,))
    found = compiled(function, fullgraph=True)(x, i, y)
    exact = function(x.double(), i, y.double())
    assert (
        (found.double() - exact).abs() <= HALF[dtype] * 1.01 * exact.abs() + 1e-6
    ).all()
    assert torch.equal(found[12:], x[12:])
    eager = (function(x, i, y).double() - exact).abs().max()
    assert (found.double() - exact).abs().max() <= 2 * eager


def test_few_values_are_put_where_the_tensor_lies() -> None:
    torch._dynamo.reset()
    x, y = torch.randn(4096, 20).bfloat16(), torch.randn(8, 20).bfloat16()
    i = torch.tensor([3, 3, 9, 3, 4095, 0, 9, 3])
    put = lambda x, i, y: x.index_put_((i,), y, accumulate=True)
    expected = put(x.clone(), i, y)
    assert torch.equal(compiled(put, fullgraph=True)(x, i, y), expected)
    assert torch.equal(x, expected)
    kernels = anabranch.last_report()["kernels"]
    assert len(kernels) == 1, "no kernel converts the whole tensor"
