"""Gears: sizes that come again and get programs of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.fx

from ..marks import gear_sizes
from ..shapes import gears

__all__ = [
    "MOST_GEAR_COMBINATIONS",
    "GearDim",
    "attach_gears",
    "find_gears",
    "guard_gears",
    "size_hint",
]

GearDim = gears.GearDim
MOST_GEAR_COMBINATIONS = gears.MOST_COMBINATIONS


def attach_gears(tensor: torch.Tensor, sizes: Mapping[int, Sequence[int]]) -> None:
    """`anabranch.set_gears` without its checks. `sizes` has the sizes of each dimension
    that has gears."""
    gear_sizes.attach(tensor, sizes)


def find_gears(
    module: torch.fx.GraphModule, example_inputs: Sequence[Any]
) -> list[GearDim]:
    """The gears of a Dynamo graph's inputs."""
    return gears.find(module, example_inputs)


def guard_gears(
    module: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    found: Sequence[GearDim],
) -> None:
    """Makes Dynamo compile again for sizes that the gears do not cover."""
    gears.guard(module, example_inputs, found)


def size_hint(size: int | torch.SymInt) -> int:
    """The size that a traced dimension has in the call that is being traced."""
    return gears.hint(size)
