"""With dynamic=True, floats that a model has are constants of its first programs, floats
that a caller passes are not, and results follow both."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional

import anabranch
from anabranch.capture import aot

X = torch.linspace(-2, 3, 12).view(3, 4)


class Scaled(torch.nn.Module):
    """A number that arithmetic may have as an argument, and one that no operator may."""

    def __init__(self) -> None:
        super().__init__()
        self.scale, self.eps = 0.5, 1e-5

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.layer_norm(x * self.scale, (4,), eps=self.eps)


@pytest.fixture
def traces(monkeypatch: pytest.MonkeyPatch) -> list[None]:
    """One for each trace by AOTAutograd."""
    found: list[None] = []
    trace = aot.aot_module_simplified

    def counted(*args: object, **kwargs: object) -> object:
        found.append(None)
        return trace(*args, **kwargs)

    monkeypatch.setattr(aot, "aot_module_simplified", counted)
    return found


def test_a_model_with_floats_is_traced_once(traces: list[None]) -> None:
    model = Scaled().eval()
    with torch.no_grad():
        compiled = torch.compile(model, backend="anabranch", dynamic=True)
        torch.testing.assert_close(compiled(X), model(X))
    assert len(traces) == 1


@pytest.mark.parametrize("name", ["scale", "eps"])
def test_a_float_that_changes_is_seen(name: str, traces: list[None]) -> None:
    model = Scaled().eval()
    compiled = torch.compile(model, backend="anabranch", dynamic=True)
    with torch.no_grad():
        for value in (0.5, 0.25, 3.0, 0.5, 0.25):
            setattr(model, name, value)
            torch.testing.assert_close(compiled(X), model(X))
    assert len(traces) == 3, "a program for each value"


def test_a_number_of_a_model_that_keeps_changing_is_an_argument(
    traces: list[None],
) -> None:
    model = Scaled().eval()
    compiled = torch.compile(model, backend="anabranch", dynamic=True)
    with torch.no_grad():
        for step in range(12):
            model.scale = 0.5 + step
            torch.testing.assert_close(compiled(X), model(X))
    # Four programs have constants. The fifth has the number; Dynamo traces it a second
    # time, since an epsilon cannot be a number of a program.
    assert len(traces) == 6


@pytest.mark.parametrize("options", [{}, {"freeze": True}, {"watch": False}])
@pytest.mark.parametrize("dynamic", [None, True])
def test_a_number_is_an_argument_beside_weights_of_each_kind(
    options: dict[str, bool], dynamic: bool | None
) -> None:
    """Frozen weights leave the arguments of a call, so that a number is another one of
    them than in the trace."""

    class Adapted(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer, self.scale = torch.nn.Linear(4, 2), 1.0

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.layer(x) * self.scale

    model = Adapted().eval()
    compiled = torch.compile(
        model, backend="anabranch", options=options, dynamic=dynamic
    )
    with torch.no_grad():
        for step in range(7):
            model.scale = 0.5 + step
            torch.testing.assert_close(compiled(X), model(X))


@pytest.mark.parametrize("wrap", [lambda s: s, lambda s: [s], lambda s: {"s": (s,)}])
def test_a_float_that_a_caller_passes_needs_one_program(
    wrap: Callable[[float], object], traces: list[None]
) -> None:
    def first(value: Any) -> float:
        while isinstance(value, (list, tuple, dict)):
            value = next(iter(value.values() if isinstance(value, dict) else value))
        return value

    def f(x: torch.Tensor, given: object) -> torch.Tensor:
        return (x * first(given)).exp()

    compiled = torch.compile(f, backend="anabranch", dynamic=True)
    for scale in (0.5, 0.25, -1.5):
        torch.testing.assert_close(compiled(X, wrap(scale)), f(X, wrap(scale)))
    assert len(traces) == 1


# What a model may compute of a float before a tensor meets it. PyTorch computes it in
# tensors, by operators that a trace does not leave in other graphs.
NUMBERS: dict[str, Callable[[float], float]] = {
    "quotient": lambda s: s / 3,
    "inverse": lambda s: 1 / s,
    "quotient of itself": lambda s: (s + 1) / (s * s),
    "root": lambda s: s**0.5,
    "power": lambda s: 2.0**s,
    "difference": lambda s: 1 - s,
    "negative": lambda s: -s,
    "size": lambda s: abs(s),
    "least": lambda s: min(s, 1.0),
    "most": lambda s: max(s, 1.0),
    "math": lambda s: math.sqrt(s) + math.exp(s) + math.sin(s) * math.log(s),
    "integer": lambda s: int(s) + math.floor(s) * math.ceil(s),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_what_a_model_computes_of_a_float_is_in_kernels(name: str) -> None:
    def f(x: torch.Tensor, s: float) -> torch.Tensor:
        number = NUMBERS[name](s)
        return x * number + x.exp() / (number + 1)

    compiled = torch.compile(f, backend="anabranch", dynamic=True)
    for scale in (0.7, 2.5, 1.25):
        torch.testing.assert_close(compiled(X, scale), f(X, scale))
    assert anabranch.counters.fallback_calls == 0


def test_an_argument_that_no_operator_has_as_a_number(traces: list[None]) -> None:
    """Dynamo learns it from the first trace, and makes it a constant."""

    def f(x: torch.Tensor, eps: float) -> torch.Tensor:
        return functional.layer_norm(x, (4,), eps=eps)

    compiled = torch.compile(f, backend="anabranch", dynamic=True)
    for count, eps in enumerate((1e-5, 0.5, 2.0), 1):
        torch.testing.assert_close(compiled(X, eps), f(X, eps))
        assert len(traces) <= 2 * count, (
            "none without functionalization and then with it"
        )


def test_programs_for_sizes_of_one_have_constant_floats(traces: list[None]) -> None:
    def f(x: torch.Tensor, model: Scaled) -> torch.Tensor:
        return model(x.sum(-1))

    model = Scaled()
    compiled = torch.compile(f, backend="anabranch", dynamic=True)
    for rows, columns in ((3, 5), (1, 5), (3, 1), (1, 1), (2, 7)):
        x = torch.randn(rows, 4, columns)
        torch.testing.assert_close(compiled(x, model), f(x, model))
    assert len(traces) == 4
