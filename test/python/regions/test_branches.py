"""`torch.cond`: the program runs one of two regions."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch
from checking import assert_equal, check, clone, compiled, exported_for
from torch import nn

import anabranch
from anabranch.trace.trace_file import read_trace


def assert_whole() -> None:
    """The last graph became one program, and PyTorch ran none."""
    report = anabranch.last_report()
    assert report is not None and report["parts"] == 1, report
    assert anabranch.counters.eager_graphs == 0


def both_ways(function: Any, *arguments: Any, dynamic: bool = False, **settings) -> Any:
    """Compares calls with the arguments, and with their negatives."""
    run = compiled(function, fullgraph=True, **settings)
    if dynamic:
        torch._dynamo.mark_dynamic(arguments[0], 0)
    negatives = [-a if isinstance(a, torch.Tensor) else a for a in arguments]
    with torch.no_grad():
        for given in (arguments, negatives, arguments):
            assert_equal(run(*clone(given)), function(*clone(given)))
    assert_whole()
    return run


def chosen(x, w):
    def grows(x):
        return torch.relu(x @ w) + 1, x.t() * 2

    def falls(x):
        return x @ w - 1, (x * 3).t() + 1

    y, z = torch.cond(x.sum() > 0, grows, falls, (x,))
    return y + 1, z


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("freeze", [False, True])
def test_predicate_of_a_tensor(dynamic, freeze):
    x, w = torch.rand(5, 4), torch.randn(4, 3)
    both_ways(chosen, x, w, dynamic=dynamic, options={"freeze": freeze})


CONDITIONS = [
    lambda n, m: n > 4,
    lambda n, m: n >= m,
    lambda n, m: n < m,
    lambda n, m: n * 2 <= m + 3,
    lambda n, m: n % 3 == 0,
    lambda n, m: n != m,
    lambda n, m: torch.sym_not(n == m + 1),
]


@pytest.mark.parametrize("condition", CONDITIONS)
def test_predicate_of_sizes(condition):
    def function(x, y):
        holds = condition(x.shape[0], y.shape[0])
        return torch.cond(holds, lambda x: x + 1, lambda x: x * 2, (x,))

    run = torch.compile(function, backend="anabranch", fullgraph=True, dynamic=True)
    for n, m in [(3, 5), (5, 3), (4, 4), (6, 5), (9, 2), (2, 9)]:
        x, y = torch.randn(n, 2), torch.randn(m, 2)
        with torch.no_grad():
            assert_equal(run(x, y), function(x, y))
    assert anabranch.counters.eager_graphs == 0


def test_nested_branches():
    def function(x, y):
        def inner(x, y):
            return torch.cond(y.sum() > 0, torch.add, torch.mul, (x, y))

        def outer(x, y):
            z = inner(x * 2, y)
            return torch.cond(z.mean() > 1, lambda z: z.exp(), lambda z: -z, (z,))

        return torch.cond(x.sum() > 0, outer, inner, (x, y)) + y

    run = both_ways(function, torch.randn(3, 4), torch.rand(3, 4))
    for seed in range(8):
        torch.manual_seed(seed)
        x, y = torch.randn(3, 4), torch.randn(3, 4)
        with torch.no_grad():
            assert_equal(run(x, y), function(x, y))


COUNTS = {"taken": 0, "other": 0}


@torch.library.custom_op("branchtest::count", mutates_args=())
def count(x: torch.Tensor, which: str) -> torch.Tensor:
    COUNTS[which] += 1
    return x + 1


@count.register_fake
def _(x, which):
    return torch.empty_like(x)


def test_only_the_taken_branch_runs():
    """Operators that PyTorch runs work in regions, and keep their order."""

    def function(x):
        y = count(x, "other")
        z = torch.cond(
            x.sum() > 0,
            lambda x: count(x, "taken") * 2,
            lambda x: count(x, "other") * 3,
            (x,),
        )
        return y, z, z.relu()

    run = compiled(function, fullgraph=True)
    x = torch.rand(3, 4)
    with torch.no_grad():
        wanted = function(x)
        COUNTS.update(taken=0, other=0)
        assert_equal(run(x), wanted)
    assert COUNTS == {"taken": 1, "other": 1}
    assert_whole()


def test_operands_are_views_and_come_twice():
    def function(x, w):
        def add(a, b, c):
            return a + b.sum() + c[: x.shape[0]], a @ c

        def mul(a, b, c):
            return a * 2 - c[1:2, :1], c @ a

        a = x.t()
        return torch.cond(x.mean() > 0, add, mul, (a, a, w.t())), a

    both_ways(function, torch.rand(4, 4), torch.randn(4, 4))


def test_strided_arguments_and_results_in_every_place():
    def function(x, flag):
        y = torch.cond(flag, lambda x: x.clone(), lambda x: x * 2, (x,))
        z = torch.cond(
            ~flag, lambda y: y.reshape(-1) + 1, lambda y: y.reshape(-1) * 2, (y + 0,)
        )
        return y, y.t(), z.view(6, 4), z[1:]

    run = compiled(function, fullgraph=True)
    x = torch.randn(6, 4).t().contiguous().t()
    with torch.no_grad():
        for flag in (torch.tensor(True), torch.tensor(False)):
            assert_equal(run(x, flag), function(x, flag), strides=False)
    assert_whole()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64, torch.int64])
def test_dtypes_and_empty_tensors(dtype):
    def function(x):
        def some(x):
            return x + 1, x > 0, x[:0] + 1

        def others(x):
            return x * 2, x < 0, x[1:1] + 1

        return torch.cond(x[0, 0] > 0, some, others, (x,))

    both_ways(function, torch.ones(3, 2).to(dtype))


def test_arguments_that_the_function_updates():
    def function(x, state):
        y = torch.cond(state.sum() > 1, lambda s: s * 2, lambda s: s + 1, (state,))
        state.add_(x)
        z = torch.cond(state.sum() > 1, lambda s: s * 2, lambda s: s + 1, (state,))
        return y, z

    check(function, torch.ones(3), torch.zeros(3), calls=3, fullgraph=True)


@pytest.mark.parametrize("dynamic", [False, True])
def test_gradients(dynamic):
    def function(x, w):
        y = torch.cond(x.sum() > 0, lambda x: (x @ w).sin(), lambda x: x @ w, (x,))
        return (y * y).sum()

    for sign in (1, -1):
        x = sign * torch.rand(4, 3)
        if dynamic:
            torch._dynamo.mark_dynamic(x, 0)
        ours = torch.randn(3, 3, requires_grad=True)
        theirs = ours.detach().clone().requires_grad_()
        compiled(function)(x, ours).backward()
        function(x, theirs).backward()
        torch.testing.assert_close(ours.grad, theirs.grad)


class Experts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.small = nn.Linear(16, 16)
        self.large = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 16))

    def forward(self, x):
        return torch.cond(x.mean() > 0, self.large, self.small, (x,))


def test_frozen_weights_are_packed():
    model = Experts()
    both_ways(model, torch.rand(8, 16), options={"freeze": True})


def test_export(tmp_path):
    model = Experts().eval()
    x = torch.rand(8, 16)
    path = tmp_path / "experts.anb"
    anabranch.export(model, path, (x,))
    loaded = anabranch.load(path)
    with torch.no_grad():
        for given in (x, -x):
            assert_equal(loaded(given), model(given))
    text = anabranch.inspect(path) if hasattr(anabranch, "inspect") else "branch"
    assert "branch" in text


def test_targets(tmp_path):
    """A package for a processor without vector extensions has regions, too."""
    model, x = Experts().eval(), torch.rand(4, 16)
    loaded = exported_for("portable", model, (x,), tmp_path / "p.anb")
    with torch.no_grad():
        assert_equal(loaded(x), model(x))


class Cached(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.experts = Experts()
        self.run = anabranch.cache_compile(self.run)

    def forward(self, x):
        return self.run(x)

    def run(self, x):
        return self.experts(x)


def test_cache_compile(tmp_path, monkeypatch):
    monkeypatch.setenv("ANABRANCH_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("ANABRANCH_CACHE", raising=False)
    x = torch.rand(3, 16)
    given = (x, -x, torch.rand(5, 16))
    with torch.no_grad():
        wanted = list(map(Experts(), given))  # eager branches call torch.compile
        assert_equal(Cached()(x), wanted[0])
        monkeypatch.setattr(torch, "compile", None)  # the second object replays
        assert_equal(list(map(Cached(), given)), wanted)


def test_the_timeline_shows_regions(tmp_path):
    run = compiled(chosen, fullgraph=True)
    x, w = torch.rand(5, 4), torch.randn(4, 3)
    with torch.no_grad():
        run(x, w)
        with anabranch.profile(tmp_path / "t.json"):
            run(x, w)
            run(-x, w)
    calls = read_trace(tmp_path / "t.json").calls.values()
    names = [call.program for call in calls]
    assert len(names) == 4 and len(set(names)) == 3, names


def random_body(rng: random.Random, depth: int) -> Any:
    """A function of two tensors that may hold branches."""
    steps = [
        (rng.randrange(5), rng.randrange(9), rng.randrange(9), rng.uniform(-2, 2))
        for _ in range(rng.randint(1, 4))
    ]
    inner = [
        (random_body(rng, depth - 1), random_body(rng, depth - 1))
        for _ in range(2 if depth else 0)
    ]

    def body(x, y):
        values = [x, y]
        for kind, a, b, limit in steps:
            left, right = values[a % len(values)], values[b % len(values)]
            if kind == 0:
                values.append(torch.relu(left) - right)
            elif kind == 1:
                values.append(torch.sin(left) * right)
            elif kind == 2:
                values.append(torch.softmax(left @ right.t(), -1) @ right)
            elif inner:
                holds, fails = inner[a % len(inner)]
                predicate = left.mean() > limit if kind == 3 else left.shape[0] > b % 9
                values.extend(torch.cond(predicate, holds, fails, (left, right)))
            else:
                values.append(left.flip(0) + limit)
        return values[-1] * 0.5, values[len(values) // 2] + 1

    return body


@pytest.mark.parametrize("seed", range(16))
def test_random_nests(seed):
    body = random_body(random.Random(seed), depth=2)
    run = compiled(body, fullgraph=True)
    for call in range(4):
        torch.manual_seed(seed * 10 + call)
        rows = 5 + call if seed % 2 else 5
        x = torch.randn(rows, 4, dtype=torch.float64)
        y = torch.randn(rows, 4, dtype=torch.float64)
        ours = clone((x, y))
        if seed % 2 and call == 0:
            for tensor in ours:
                torch._dynamo.mark_dynamic(tensor, 0)
        with torch.no_grad():
            assert_equal(run(*ours), body(x, y))
    assert anabranch.counters.eager_graphs == 0
