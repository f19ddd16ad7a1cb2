"""Random graphs with symbolic sizes equal eager at many sizes, in one symbolic program,
in gears and in tiers."""

from __future__ import annotations

import random

import pytest
import torch

import anabranch
from anabranch import Config
from anabranch.shapes import tiers

SIZES = (3, 2, 7, 64, 5, 33, 130, 1, 0)


def step(choice, x, y):
    """Adds one random operator to two tensors [n, 6]."""
    n = x.shape[0]
    return [
        lambda: torch.relu(x) + y,
        lambda: torch.softmax(x * y, -1),
        lambda: x @ x.new_ones(6, 6) - y.mean(-1, keepdim=True),
        lambda: torch.cat([x, y], 0)[: n or None] * 0.5,
        lambda: torch.cat([x[:, :2], y[:, 2:]], 1),
        lambda: (x.t() @ y).sum() + x,
        lambda: x.reshape(2 * n, 3).reshape(n, 6).flip(1),
        lambda: x.t().contiguous().t() + y.sum(0),
        lambda: torch.where(x > y, x, y.cumsum(0)),
        lambda: x[n // 2 :].sum(0) + y,
        lambda: (x[:, None, :] * y[:, :, None]).amax(-1),
        lambda: x + torch.arange(n)[:, None] / 7,
    ][choice]()


def graph(seed):
    choices = random.Random(seed).choices(range(12), k=5)

    def function(x, y):
        for choice in choices:
            x, y = step(choice, x, y), x
        return x, y * 2

    return function


def arguments(size):
    generator = torch.Generator().manual_seed(size)
    return tuple(torch.randn(size, 6, generator=generator) for _ in range(2))


def compare(function, compiled, given):
    """Allows a few times eager's distance from float64, because sums cancel."""
    exact = function(*(argument.double() for argument in given))
    for result, eager, wanted in zip(
        compiled(*given), function(*given), exact, strict=True
    ):
        assert result.shape == eager.shape and result.dtype == eager.dtype
        if not result.numel():
            continue
        allowed = 4 * (eager - wanted).abs().max() + 1e-5 * (1 + wanted.abs().max())
        assert (result - wanted).abs().max() <= allowed


def check(function, compiled, sizes):
    for size in sizes:
        compare(function, compiled, arguments(size))


@pytest.mark.parametrize("seed", range(8))
def test_one_symbolic_program(seed):
    function = graph(seed)
    check(function, anabranch.compile(function, dynamic=True), SIZES)
    assert anabranch.counters.graphs >= 1


@pytest.mark.parametrize("seed", range(6))
def test_graphs_without_guards(seed):
    function = graph(seed)
    dropped = {"guard_filter_fn": torch.compiler.skip_all_guards_unsafe}
    compiled = torch.compile(function, backend=anabranch.anabranch, options=dropped)
    given = arguments(7)
    for argument in given:
        torch._dynamo.maybe_mark_dynamic(argument, 0)
    compare(function, compiled, given)
    check(function, compiled, (*SIZES, 1, 64))


@pytest.mark.parametrize("seed", range(12, 15))
def test_gears(seed):
    function = graph(seed)
    given = arguments(5)
    for argument in given:
        anabranch.set_gears(argument, {0: [2, 5, 33, 64]})
    compiled = anabranch.compile(function, fullgraph=True)
    compare(function, compiled, given)
    check(function, compiled, (2, 33, 64, 5))
    assert anabranch.counters.graphs == 1


@pytest.mark.parametrize("seed", range(16, 17))
def test_tiers(seed):
    function = graph(seed)
    compiled = anabranch.compile(function, config=Config(shapes="tiered"))
    check(function, compiled, (5, 2, 33))
    assert tiers.worker().finish(120)
    check(function, compiled, (5, 2, 33, 64))


# In the trace `third` is one: PyTorch broadcasts it, and guards this.
BROADCAST = {
    "compared": lambda x, third: x == x[:, :, third : 2 * third],
    "chosen": lambda x, third: torch.where(x[..., :third] > 0, x, 1),
    "expanded": lambda x, third: x[:, :, :third].expand(x.shape) - x,
    "copied": lambda x, third: x.clone().copy_(x[:, :, :third]),
    "flattened": lambda x, third: (x + x[..., :third], x[..., :third].reshape(-1)),
    "joined": lambda x, third: (
        x * x[..., :third],
        torch.cat([x[..., :third], x], -1),
    ),
    "multiplied": lambda x, third: (
        x + x[..., :third],
        x[..., :third].transpose(1, 2) @ x,
    ),
    "returned": lambda x, third: (x + x[..., :third], x[..., :third] * 2),
}


@pytest.mark.parametrize("name", BROADCAST)
def test_an_expression_that_guards_hold_at_one(name):
    def function(x):
        return BROADCAST[name](x, x.shape[2] // 3)

    compiled = torch.compile(function, backend=anabranch.anabranch, dynamic=True)
    for shape in ((2, 4, 3), (5, 9, 3), (2, 1, 5)):
        x = torch.randn(shape)
        torch.testing.assert_close(compiled(x), function(x))
    assert anabranch.counters.eager_graphs == 0


COMBINED = {
    "sum": sum,
    "maximum": max,
    "minimum": min,
    "alternating": lambda sizes: sum(n * (-1) ** k for k, n in enumerate(sizes)) + 900,
}


@pytest.mark.parametrize("name", COMBINED)
def test_an_expression_of_many_symbols(name):
    def function(tensors):
        return (
            torch.zeros(COMBINED[name]([t.shape[0] for t in tensors])) + tensors[0][0]
        )

    compiled = torch.compile(function, backend=anabranch.anabranch, dynamic=True)
    tensors = [torch.randn(i % 5 + 2) for i in range(250)]
    assert torch.equal(compiled(tensors), function(tensors))
    assert anabranch.counters.eager_graphs == 0


def test_sizes_of_zero_and_one_where_guards_are_off():
    """PyTorch's guards compile these sizes anew; eager PyTorch runs them in any case."""
    model = torch.nn.Sequential(
        torch.nn.Linear(8, 16), torch.nn.LayerNorm(16), torch.nn.Softmax(-1)
    ).eval()
    unguarded = {"guard_filter_fn": lambda guards: [False for _ in guards]}
    compiled = torch.compile(
        model, backend=anabranch.anabranch, dynamic=True, options=unguarded
    )
    with torch.no_grad():
        for rows in (3, 5, 1, 0, 64):
            x = torch.randn(rows, 8)
            torch.testing.assert_close(compiled(x), model(x))
    assert anabranch.counters.graphs == 1
