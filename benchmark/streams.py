"""Independent branches: one stream, the user's streams, streams found by auto."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import torch
from torch import nn

import anabranch
from harness import Row, Workload, case, steady

NAMES = ("eager", "inductor", "one stream", "marked", "auto")


def on(tag: str, marked: bool) -> contextlib.AbstractContextManager:
    return anabranch.stream(tag) if marked else contextlib.nullcontext()


class Branches:
    """A function of `marked` and tensors, called without its scopes; `marked`
    calls it with them."""

    def __init__(self, function: Callable) -> None:
        self.function = function

    def __call__(self, *arguments: torch.Tensor) -> object:
        return self.function(False, *arguments)

    def marked(self, *arguments: torch.Tensor) -> object:
        return self.function(True, *arguments)


def branches(count: int, layers: int, width: int, batch: int) -> Callable:
    def make() -> Workload:
        torch.manual_seed(0)
        towers = [
            nn.Sequential(
                *[
                    nn.Sequential(nn.Linear(width, width), nn.ReLU())
                    for _ in range(layers)
                ]
            )
            for _ in range(count)
        ]

        def function(marked: bool, x: torch.Tensor) -> torch.Tensor:
            results = []
            for number, tower in enumerate(towers):
                with on(f"tower{number}", marked and number > 0):
                    results.append(tower(x))
            return torch.cat(results, -1)

        return Workload(Branches(function), (torch.randn(batch, width),))

    return make


def seed_example() -> Workload:
    def function(
        marked: bool,
        a: torch.Tensor,
        b: torch.Tensor,
        c: torch.Tensor,
        d: torch.Tensor,
    ) -> tuple[torch.Tensor, ...]:
        first = a + b
        with on("1", marked):
            if marked:
                anabranch.wait(d, first)
            second = torch.mm(c, d)
        third = torch.mm(c, d)
        with on("2", marked):
            if marked:
                anabranch.wait(d, second)
            fourth = c + d
        return first, second, third, fourth

    torch.manual_seed(0)
    data = tuple(torch.randn(1000, 1000, dtype=torch.float16) for _ in range(4))
    return Workload(Branches(function), data)


@case("streams-seed", extra=True)
def seed() -> list[Row]:
    """four operators on 1000 x 1000 in f16, two equal products"""
    return steady(seed_example, NAMES, tolerance=1.0, seconds=4)


@case("streams-4-towers", extra=True)
def four_towers() -> list[Row]:
    """4 towers of 4 linears, 64 wide, batch 16"""
    return steady(branches(4, 4, 64, 16), NAMES, "us", seconds=3)


@case("streams-6-branches", extra=True)
def six_branches() -> list[Row]:
    """6 branches of 4 linears, 256 wide, batch 4"""
    return steady(branches(6, 4, 256, 4), NAMES, "us", seconds=3)


@case("streams-16-towers", extra=True)
def sixteen_towers() -> list[Row]:
    """16 towers of 3 linears, 64 wide, batch 8"""
    return steady(branches(16, 3, 64, 8), NAMES, "us", seconds=3)
