"""Random chains and diamonds of operators, in random super kernels and streams, have the
bits of the program without marks, with any number of threads.

ANABRANCH_SUPER_GRAPHS sets the number of graphs, ANABRANCH_SUPER_SEED the first seed.
"""

from __future__ import annotations

import contextlib
import os
import random

import pytest
import torch
import torch.nn.functional as F
from variants import Variants

import anabranch
from anabranch import _C

GRAPHS = int(os.environ.get("ANABRANCH_SUPER_GRAPHS", "12"))
FIRST = int(os.environ.get("ANABRANCH_SUPER_SEED", "0"))


@pytest.fixture(autouse=True)
def default_threads():
    yield
    _C.set_default_threads(0)


class Model:
    """A model of random chains and diamonds in random scopes, made from a seed."""

    OPERATORS = (
        lambda a, b: a @ b / 8,
        lambda a, b: a + b,
        lambda a, b: (a * b).tanh(),
        lambda a, b: a.softmax(-1) - b,
        lambda a, b: a.t() @ b / 8,
        lambda a, b: a.cumsum(0) / 8 + b,
        lambda a, b: F.layer_norm(a, a.shape[-1:]) * b.sigmoid(),
        lambda a, b: a.sum(0, keepdim=True) + b,
        lambda a, b: torch.cat([a[3:], b[:3]]),
        lambda a, b: torch.where(a > b, a, b.exp().clamp(max=9.0)),
    )

    def __init__(self, seed: int) -> None:
        choose = random.Random(seed)
        self.size = choose.choice((17, 48, 48, 80))
        self.steps = []
        names = [None, "", "a", "b", "c"]
        scope = choose.choice(names)
        for number in range(choose.randint(4, 14)):
            if choose.random() < 0.3:
                scope = choose.choice(names)
            known = number + 2
            recent = range(max(0, known - 4), known)
            self.steps.append(
                (
                    scope,
                    f"stream-fusion={choose.randint(0, 1)}",
                    choose.choice([None, None, "s", "t"]),
                    choose.choice(self.OPERATORS),
                    choose.choice(recent),
                    choose.choice(recent),
                )
            )
        self.given = choose.sample(range(2, len(self.steps) + 2), 2)

    def __call__(self, x, y):
        values = [x, y]
        for scope, options, stream, operator, left, right in self.steps:
            inner = contextlib.nullcontext()
            if stream is not None:
                inner = anabranch.stream(stream)
            with anabranch.super_kernel(scope, options), inner:
                values.append(operator(values[left], values[right]))
        return [values[-1], *(values[i] for i in self.given)]


def units(report) -> dict[str, int]:
    """The super kernels of a program, with their launches."""
    return {entry["name"]: entry["launches"] for entry in report["super_kernels"]}


@torch.no_grad()
@pytest.mark.parametrize("seed", range(FIRST, FIRST + GRAPHS))
def test_random_graphs(seed, record_property):
    torch.manual_seed(seed)
    model = Model(seed)
    inputs = [torch.randn(model.size, model.size) for _ in range(2)]
    marked = "auto" if seed % 3 == 0 else "marked"
    both = Variants(
        {"alone": {"super_kernels": "off"}, "marked": {"super_kernels": marked}}
    )
    run = both.compile(lambda x, y: model(x, y))
    alone = run(*inputs)
    for found, wanted in zip(alone, model(*inputs), strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-3, atol=1e-3)
    assert not units(both.reports["alone"])
    both.chosen = "marked"
    for threads in (1, 2, 3, 7):
        _C.set_default_threads(threads)
        for _ in range(3):
            assert all(map(torch.equal, run(*inputs), alone)), f"{threads} threads"
    record_property("super kernels", len(units(both.reports["marked"])))


@torch.no_grad()
@pytest.mark.parametrize("seed", range(FIRST + 4, FIRST + 4 + GRAPHS // 12))
def test_random_graphs_of_symbolic_sizes(seed):
    """Calls bind the sizes of one program; a binding comes again after others."""
    torch.manual_seed(seed)
    model = Model(seed)
    both = Variants(
        {"alone": {"super_kernels": "off"}, "marked": {"super_kernels": "auto"}}
    )
    run = both.compile(lambda x, y: model(x, y), dynamic=True)
    _C.set_default_threads(2 + seed % 3)
    calls = [[torch.randn(n, n) for _ in range(2)] for n in (48, 9, 80, 9, 130)]
    for call in calls:
        both.chosen = "alone"
        alone = run(*call)
        for found, wanted in zip(alone, model(*call), strict=True):
            torch.testing.assert_close(found, wanted, rtol=1e-3, atol=1e-3)
        both.chosen = "marked"
        for _ in range(3):
            assert all(map(torch.equal, run(*call), alone))
    for entry in both.reports["marked"]["super_kernels"]:
        assert entry["symbolic"]
