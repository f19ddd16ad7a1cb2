"""What grouped products that other work follows share: where groups end, weights in blocks,
and which operands are small floats."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ..checks import check, check_dtype, check_shape
from .small_groups import are_small

__all__ = ["are_small_floats", "check_integers", "ends_of", "from_blocks", "sizes_of"]

_INTEGERS = (torch.int8, torch.int32)
_FRACTAL_NZ = 29


def ends_of(name: str, group_list: Tensor, kind: int | None, groups: int) -> Tensor:
    """The end of each group's rows. RuntimeError: another shape, dtype or kind."""
    check(kind in (0, 1), name, f"group_list_type must be 0 or 1, got {kind}")
    check_dtype(group_list, name, "group_list", (torch.int64,))
    check_shape(group_list, name, "group_list", (groups,))
    return group_list.cumsum(0) if kind == 1 else group_list


def sizes_of(ends: Tensor) -> Tensor:
    """The size of each group, from the end of each."""
    return torch.diff(ends, prepend=ends.new_zeros(1))


def from_blocks(name: str, weight: Tensor, what: str) -> Tensor:
    """The weight (groups, k, n) of blocks (groups, n / c, k / 16, 16, c), c of them 8 for
    int32 and 32 for bytes. A view of a tensor in FRACTAL_NZ has the order of that tensor in
    memory, which is the logical one on this host."""
    if weight.dim() != 5:
        return weight
    groups, across, down, rows, columns = weight.shape
    wanted = 8 if weight.dtype == torch.int32 else 32
    text = f"{what} of 5 dimensions must end with 16 and {wanted}, got"
    right = (rows, columns) == (16, wanted)
    check(right, name, f"{text} {tuple(weight.shape)}")
    shape = groups, down * rows, across * columns
    origin = weight._base
    while origin is not None:
        if getattr(origin, "_npu_format", None) == _FRACTAL_NZ:
            return weight.reshape(shape)
        origin = origin._base
    return weight.permute(0, 2, 3, 1, 4).reshape(shape)


def check_integers(name: str, x: Tensor, weight: Tensor, what: str) -> None:
    check_dtype(x, name, "x", _INTEGERS)
    check(x.dim() == 2, name, f"x must have 2 dimensions, got {x.dim()}")
    check_dtype(weight, name, what, _INTEGERS)
    text = f"{what} must have 3 dimensions, got {weight.dim()}"
    check(weight.dim() == 3, name, text)


def are_small_floats(
    name: str, x: Tensor, weight: Sequence[Tensor], kinds: Sequence[int | None]
) -> bool:
    """Whether operands are floats of eight or four bits. `kinds`: the numbers of the dtypes
    of x, of the weight and of their scales. RuntimeError: numbers beside integers, or one
    operand of small floats alone."""
    small, other = are_small([x], kinds[0]), are_small(weight, kinds[1])
    text = f"x of {x.dtype} and weight of {weight[0].dtype} don't go together"
    check(small == other, name, text)
    given = [kind for kind in kinds if kind is not None]
    text = f"dtypes of operands and scales are for small floats, got {given}"
    check(small or not given, name, f"{text} with x of {x.dtype}")
    return small
