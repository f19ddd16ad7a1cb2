"""Gears: one compilation, a program for each combination of sizes."""

from __future__ import annotations

import pytest
import torch

import anabranch
from anabranch import CompileError, Config
from anabranch.packages import package


@pytest.fixture
def compilations(monkeypatch):
    """The executables that the test has made so far."""
    built = []
    original = package.build

    def build(*arguments, **settings):
        built.append(original(*arguments, **settings))
        return built[-1]

    monkeypatch.setattr(package, "build", build)
    return built


def two(a, b):
    return a * 2, torch.softmax(b, -1) @ torch.ones(3, 5)


def check(function, compiled, *arguments):
    results, expected = compiled(*arguments), function(*arguments)
    torch.testing.assert_close(results, expected)


def geared(merge, first=(2, 4), second=(2, 4), **settings):
    a, b = torch.randn(first[0], 3), torch.randn(second[0], 3)
    anabranch.set_gears(a, {0: first})
    anabranch.set_gears(b, {0: list(second)})
    config = Config(gears_merge=merge, **settings)
    compiled = anabranch.compile(two, config=config, fullgraph=True)
    check(two, compiled, a, b)
    return compiled


@pytest.mark.parametrize("dynamic", [None, True])
def test_one_compilation_serves_all_gears(compilations, dynamic):
    a = torch.randn(8, 5)
    anabranch.set_gears(a, {0: [8, 4, 16]})
    compiled = anabranch.compile(torch.tanh, dynamic=dynamic, fullgraph=True)
    for rows in (8, 4, 16, 4):
        argument = a if rows == 8 else torch.randn(rows, 5)
        check(torch.tanh, compiled, argument)
    assert len(compilations) == 1 and compilations[0].programs == 3


def test_product_takes_each_with_each(compilations):
    compiled = geared("product")
    for rows in ((4, 4), (2, 4), (4, 2)):
        check(two, compiled, *(torch.randn(size, 3) for size in rows))
    assert len(compilations) == 1 and compilations[0].programs == 4


def test_zip_refuses_what_is_not_listed(compilations):
    compiled = geared("zip")
    check(two, compiled, torch.randn(4, 3), torch.randn(4, 3))
    with pytest.raises(RuntimeError, match=r"\[2, 2, 4, 4\].*\[4, 4, 4, 4\]"):
        compiled(torch.randn(2, 3), torch.randn(4, 3))
    check(two, compiled, torch.randn(4, 3), torch.randn(4, 3))
    assert len(compilations) == 1 and compilations[0].programs == 2


def test_a_size_outside_compiles_again(compilations):
    compiled = geared("zip")
    check(two, compiled, torch.randn(3, 3), torch.randn(9, 3))
    check(two, compiled, torch.randn(4, 3), torch.randn(4, 3))
    assert len(compilations) == 2 and compilations[1].programs == 1


def test_other_dimensions_are_what_they_are(compilations):
    a, b = torch.randn(2, 3), torch.randn(7)
    anabranch.set_gears(a, {0: [2, 4]})

    def function(a, b):
        return a.sum() + b

    compiled = anabranch.compile(function, dynamic=True, fullgraph=True)
    check(function, compiled, a, b)
    check(function, compiled, torch.randn(4, 3), b)
    assert len(compilations) == 1
    assert [entry["shape"] for entry in compilations[0].inputs][-1] == [7]
    check(function, compiled, torch.randn(4, 3), torch.randn(8))
    assert len(compilations) == 2


def test_equal_sizes_leave_out_mixed_combinations(compilations):
    a, b = torch.randn(2, 3), torch.randn(2, 3)
    for tensor in (a, b):
        anabranch.set_gears(tensor, {0: [2, 4]})
    config = Config(gears_merge="product")
    compiled = anabranch.compile(torch.add, config=config, fullgraph=True)
    check(torch.add, compiled, a, b)
    check(torch.add, compiled, torch.randn(4, 3), torch.randn(4, 3))
    assert len(compilations) == 1 and compilations[0].programs == 2


def test_zip_of_repeated_gears_is_a_product(compilations):
    a = torch.randn(2, 10)
    sizes = {0: [2, 3, 4, 2, 3, 4], 1: [10, 10, 10, 20, 20, 20]}
    anabranch.set_gears(a, sizes)
    compiled = anabranch.compile(torch.exp, fullgraph=True)
    check(torch.exp, compiled, a)
    for rows in (2, 3, 4):
        for columns in (10, 20):
            check(torch.exp, compiled, torch.randn(rows, columns))
    assert len(compilations) == 1 and compilations[0].programs == 6


def test_ninety_eight_gears(compilations):
    a = torch.randn(2, 3)
    anabranch.set_gears(a, {0: list(range(2, 100))})

    def function(a):
        return torch.relu(a).sum(0)

    compiled = anabranch.compile(function, fullgraph=True)
    for rows in (2, 3, 50, 99):
        check(function, compiled, a if rows == 2 else torch.randn(rows, 3))
    assert len(compilations) == 1 and compilations[0].programs == 98


def test_frozen_weights_are_packed_once(compilations):
    model = torch.nn.Sequential(
        torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 64)
    ).eval()
    config = Config(freeze=True)
    with torch.no_grad():
        single = anabranch.compile(model, config=config, dynamic=False, fullgraph=True)
        single(torch.randn(16, 64))
        torch._dynamo.reset()
        x = torch.randn(16, 64)
        anabranch.set_gears(x, {0: [16, 32, 48]})
        compiled = anabranch.compile(model, config=config, fullgraph=True)
        for rows in (16, 32, 48):
            argument = x if rows == 16 else torch.randn(rows, 64)
            torch.testing.assert_close(compiled(argument), model(argument))
    one, three = (executable for executable in compilations)
    weights = sum(p.numel() * 4 for p in model.parameters() if p.dim() == 2)
    assert three.programs == 3 and three.cached_bytes - one.cached_bytes < weights


def test_kernels_that_do_not_depend_on_the_gear_are_shared(compilations):
    a, b = torch.randn(2, 3), torch.randn(50, 60)
    anabranch.set_gears(a, {0: [2, 4, 8]})

    def function(a, b):
        return a + 1, torch.softmax(b, -1)

    compiled = anabranch.compile(function, fullgraph=True)
    check(function, compiled, a, b)
    assert compilations[0].kernels == 4


@pytest.mark.parametrize(
    ("gears", "error", "text"),
    [
        ({2: [2, 4]}, ValueError, "from 0 to 1, got 2"),
        ({-1: [2, 4]}, ValueError, "from 0 to 1, got -1"),
        ({0: 2}, TypeError, "must be a list"),
        ({0: []}, TypeError, "must be a list"),
        ({0: [2, 0]}, ValueError, "must be positive ints"),
        ({0: [2, 4.0]}, ValueError, "must be positive ints"),
        ({0: [2, True]}, ValueError, "must be positive ints"),
    ],
)
def test_bad_gears(gears, error, text):
    with pytest.raises(error, match=text):
        anabranch.set_gears(torch.ones(2, 3), gears)


def test_a_size_that_is_no_gear():
    a = torch.randn(3, 3)
    anabranch.set_gears(a, {0: [2, 4]})
    with pytest.raises(CompileError, match=r"is 3, which is none of its gears"):
        anabranch.compile(torch.exp, fullgraph=True)(a)


def test_lists_of_different_lengths():
    with pytest.raises(CompileError, match="equally many gears, got 2, 3"):
        geared("zip", second=(2, 4, 6))


def test_too_many_combinations():
    with pytest.raises(CompileError, match="900 combinations"):
        geared("product", first=tuple(range(2, 32)), second=tuple(range(2, 32)))
