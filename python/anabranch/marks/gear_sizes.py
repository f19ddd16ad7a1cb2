"""The sizes that dimensions of an input take, as the user says them.

They stand on the tensor as an attribute, by dimension. `shapes/gears.py` makes
programs of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

_ATTRIBUTE = "_anabranch_gears"


def set_gears(tensor: torch.Tensor, gears: Mapping[int, Sequence[int]]) -> None:
    """Says, before the first call, which sizes dimensions of an input take:
    `{dim: sizes}`. Other tensors of later calls need no such call.

    Dimensions count from 0; sizes are positive ints, in a list or a tuple.
    TypeError, ValueError: a dimension or sizes that are none."""
    for dim, sizes in gears.items():
        if not _is_int(dim) or not 0 <= dim < tensor.dim():
            raise ValueError(
                f"gears are for dimensions from 0 to {tensor.dim() - 1}, got {dim!r}"
            )
        if not isinstance(sizes, list | tuple) or not sizes:
            raise TypeError(f"gears of dimension {dim} must be a list, got {sizes!r}")
        if not all(_is_int(size) and size > 0 for size in sizes):
            raise ValueError(f"gears of dimension {dim} must be sizes, got {sizes!r}")
    attach(tensor, gears)


def attach(tensor: torch.Tensor, gears: Mapping[int, Sequence[int]]) -> None:
    """`set_gears` without its checks."""
    setattr(tensor, _ATTRIBUTE, {dim: tuple(sizes) for dim, sizes in gears.items()})
    for dim in gears:
        torch._dynamo.mark_dynamic(tensor, dim)


def gears_of(tensor: object) -> dict[int, tuple[int, ...]]:
    """The sizes by dimension; empty where the user said none."""
    return getattr(tensor, _ATTRIBUTE, {})


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
