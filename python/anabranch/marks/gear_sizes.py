"""Keeps the sizes that a user names for dimensions of an input.

A tensor carries them as an attribute, by dimension. `shapes/gears.py` compiles a
program for each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

_ATTRIBUTE = "_anabranch_gears"


def set_gears(tensor: torch.Tensor, gears: Mapping[int, Sequence[int]]) -> None:
    """Names the sizes that dimensions of an input take, before the first call.

    tensor  the input of the first call; tensors of later calls are not marked
    gears   {dimension: sizes}: dimensions count from 0, sizes are positive ints in a
            list or a tuple

    TypeError, ValueError: a dimension that the tensor does not have, or wrong sizes.
    """
    for dim, sizes in gears.items():
        if not _is_int(dim) or not 0 <= dim < tensor.dim():
            raise ValueError(
                f"gears are for dimensions from 0 to {tensor.dim() - 1}, got {dim!r}"
            )
        if not isinstance(sizes, list | tuple) or not sizes:
            raise TypeError(f"gears of dimension {dim} must be a list, got {sizes!r}")
        if not all(_is_int(size) and size > 0 for size in sizes):
            raise ValueError(
                f"gears of dimension {dim} must be positive ints, got {sizes!r}"
            )
    attach(tensor, gears)


def attach(tensor: torch.Tensor, gears: Mapping[int, Sequence[int]]) -> None:
    """`set_gears` without its checks."""
    setattr(tensor, _ATTRIBUTE, {dim: tuple(sizes) for dim, sizes in gears.items()})
    for dim in gears:
        torch._dynamo.mark_dynamic(tensor, dim)


def gears_of(tensor: object) -> dict[int, tuple[int, ...]]:
    """The sizes of each dimension with gears; empty for a tensor without them."""
    return getattr(tensor, _ATTRIBUTE, {})


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
