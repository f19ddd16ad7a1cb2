"""Operators of lists of tensors, steps of optimisers and sums by `fma` run in kernels, and
equal eager PyTorch's."""

from __future__ import annotations

import copy
import math

import pytest
import torch
from torch import nn

import anabranch
from anabranch.capture.decompositions import tensor_lists

OPERATORS = {str(op): op for op in tensor_lists.decompositions()}
# PyTorch cannot trace it for symbolic sizes.
STATIC = ("aten._foreach_max.default",)
SHAPES = ((3, 3), (2, 2))
# Within the domains of all functions, logarithms and inverses of sines among them.
LOW, HIGH = 0.2, 0.9


def values(generator: torch.Generator) -> list[torch.Tensor]:
    return [torch.rand(s, generator=generator) * (HIGH - LOW) + LOW for s in SHAPES]


def arguments(schema, generator: torch.Generator) -> tuple[list, dict]:
    """What an operator of this schema is called with. Each position of a list has a
    number of its own, so a number in another's place changes the result."""
    kinds = {
        "List[Tensor]": lambda: values(generator),
        "Tensor": lambda: torch.tensor(0.75),
        "number": lambda: 1.5,
        "List[number]": lambda: [0.5, 2.5],
    }
    made = [
        (argument, kinds[str(argument.type)]())
        for argument in schema.arguments
        if str(argument.type) in kinds
    ]
    return (
        [value for argument, value in made if not argument.kwarg_only],
        {argument.name: value for argument, value in made if argument.kwarg_only},
    )


@pytest.mark.parametrize("dynamic", [False, True])
def test_each_operator_equals_eager(dynamic):
    generator = torch.Generator().manual_seed(0)
    calls = [
        (op, *arguments(op._schema, generator))
        for name, op in OPERATORS.items()
        if not dynamic or name not in STATIC
    ]

    def function(calls):
        return [op(*args, **kwargs) for op, args, kwargs in calls]

    calls = [
        call for call in calls if call[0] is not torch.ops.aten._foreach_mm.default
    ]
    wanted = function(calls)
    compiled = torch.compile(
        lambda *parts: function([(op, *p) for (op, *_), p in zip(calls, parts)]),
        backend="anabranch",
        fullgraph=True,
        dynamic=dynamic,
    )
    got = compiled(*((args, kwargs) for _, args, kwargs in calls))
    for (op, *_), actual, expected in zip(calls, got, wanted, strict=True):
        torch.testing.assert_close(
            actual, expected, msg=lambda text, op=op: f"{op}: {text}"
        )
    # The only function of one tensor without a kernel.
    fallbacks = {found["op"] for found in anabranch.last_report()["fallbacks"]}
    assert fallbacks <= {"aten.erfc"}


def model() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))


OPTIMISERS = {
    "adam": lambda p: torch.optim.Adam(p, lr=0.01, foreach=True),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.01, amsgrad=True, foreach=True),
    "sgd": lambda p: torch.optim.SGD(p, lr=0.01, momentum=0.9, foreach=True),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=0.01, centered=True, foreach=True),
    "adam alone": lambda p: torch.optim.Adam(p, lr=0.01, foreach=False),
    "adagrad alone": lambda p: torch.optim.Adagrad(p, lr=0.01, foreach=False),
    "nadam": lambda p: torch.optim.NAdam(p, lr=0.01, foreach=True),
}


@pytest.mark.parametrize("name", OPTIMISERS)
def test_steps_of_an_optimiser(name):
    torch.manual_seed(0)
    eager = model()
    other = copy.deepcopy(eager)
    steps = []
    for module in (eager, other):
        optimiser = OPTIMISERS[name](list(module.parameters()))
        steps.append((module, optimiser, optimiser.step))
    wraps = steps[1][1]
    steps[1] = (other, wraps, torch.compile(lambda: wraps.step(), backend="anabranch"))
    for _ in range(3):
        x = torch.randn(5, 6)
        for module, optimiser, step in steps:
            optimiser.zero_grad()
            module(x).square().sum().backward()
            step()
    for actual, expected in zip(other.parameters(), eager.parameters(), strict=True):
        torch.testing.assert_close(actual, expected)
    assert anabranch.counters.fallback_calls == 0


@pytest.mark.parametrize("norm", [2.0, 1.0, math.inf])
def test_clipping_of_gradients(norm):
    torch.manual_seed(0)
    gradients = [torch.randn(4, 3), torch.randn(7)]
    twins = copy.deepcopy(gradients)

    def clip(gradients):
        total = torch.nn.utils.get_total_norm(gradients, norm, foreach=True)
        torch._foreach_mul_(gradients, torch.clamp(0.5 / total, max=1.0))
        return total

    compiled = torch.compile(clip, backend="anabranch", fullgraph=True)
    torch.testing.assert_close(compiled(twins), clip(gradients))
    torch.testing.assert_close(twins, gradients)
    assert anabranch.counters.fallback_calls == 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_updates_by_fma(dtype):
    """Dynamo has a product and a sum for `addcmul_` and its like with a value."""

    def function(x, a, b):
        x = x.clone()
        x.addcmul_(a, b, value=2.5)
        x.addcdiv_(a, b + 2, value=-0.5)
        return x

    torch.manual_seed(0)
    x, a, b = (
        torch.rand(s, dtype=torch.float64).to(dtype) for s in ((4, 6), (6,), (4, 1))
    )
    wanted = function(x.double(), a.double(), b.double()).to(dtype)
    compiled = torch.compile(function, backend="anabranch", fullgraph=True)
    torch.testing.assert_close(compiled(x, a, b), wanted)
    assert anabranch.counters.fallback_calls == 0
