"""Functions and modules that PyTorch saves after Anabranch has compiled them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import torch
from torch import nn


class Mlp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(16, 32)
        self.down = nn.Linear(32, 4)
        self.register_buffer("scale", torch.rand(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(torch.relu(self.up(x))) * self.scale


class Parted(nn.Module):
    """PyTorch runs an operator whose result has a size that depends on data."""

    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(16, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.tanh(self.up(x))
        rows = torch.nonzero(y.sum(1) > 0)[:, 0]
        return torch.softmax(y[rows] * 2 + 1, 1)


def fallback(x: torch.Tensor) -> torch.Tensor:
    return torch.special.bessel_j0(x) + 1


def views(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    y = torch.exp(x)
    return y.t(), x[1:]


def writes(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    x.add_(y)
    return x * 2


def number(x: torch.Tensor, factor: float) -> torch.Tensor:
    return x * factor + 1


def complex_numbers(x: torch.Tensor) -> torch.Tensor:
    return torch.view_as_real(torch.fft.rfft(x)).sum(-1)


@dataclasses.dataclass
class Case:
    make: Callable[[], Callable[..., Any]]
    arguments: Callable[[], tuple[Any, ...]]
    options: dict[str, Any] | None = None

    def function(self) -> Callable[..., Any]:
        torch.manual_seed(0)
        return self.make()

    def inputs(self) -> tuple[Any, ...]:
        torch.manual_seed(1)
        return self.arguments()

    def call(self, run: Callable[..., Any], made: Any) -> list[Any]:
        """The results of a call, and the arguments as it leaves them."""
        arguments = self.inputs()
        first = (made,) if run is not made and isinstance(made, nn.Module) else ()
        results = run(*first, *arguments)
        return [results, *arguments]


def _matrix() -> tuple[Any, ...]:
    return (torch.randn(5, 16),)


CASES = {
    "live": Case(Mlp, _matrix),
    "frozen": Case(Mlp, _matrix, {"freeze": True}),
    "tiered": Case(Mlp, _matrix, {"shapes": "tiered"}),
    "parted": Case(Parted, _matrix),
    "frozen parts": Case(Parted, _matrix, {"freeze": True}),
    "fallback": Case(lambda: fallback, _matrix),
    "views": Case(lambda: views, _matrix),
    "writes": Case(lambda: writes, lambda: (torch.randn(4), torch.randn(4))),
    "number": Case(lambda: number, lambda: (torch.randn(4), 2.5)),
    "complex": Case(lambda: complex_numbers, _matrix),
}
