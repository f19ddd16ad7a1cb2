"""Decomposes selections and counts whose sizes the run decides, for packages, which run
without PyTorch.

    mask                1 0 1 1
    places  cumsum - 1  0 0 1 2
    count   sum         3
    chosen  positions 0 2 3, scattered to their places; the others go to a spare place

The count is an item: what has its size is computed in a region (docs/design/regions.md).
Where a graph stays in PyTorch's process, its operators are calls."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

aten = torch.ops.aten

_MASKS = (torch.bool, torch.uint8)


def decompositions() -> dict[Any, Callable[..., Any]]:
    return {
        aten.nonzero.default: _nonzero,
        aten.index.Tensor: _index,
        aten.masked_select.default: _masked_select,
        aten.repeat_interleave.Tensor: _repeat_interleave,
        aten.bincount.default: _bincount,
        aten._unique2.default: _unique,
    }


def _positions(mask: Tensor) -> Tensor:
    """The positions at which a vector of bools is true."""
    size = mask.shape[0]
    ones = mask.to(torch.int64)
    places = torch.where(mask, ones.cumsum(0) - 1, size)
    made = ones.new_zeros(size + 1)
    made = aten.index_put(made, (places,), torch.arange(size))
    return _first(made, ones.sum().item(), size)


def _first(values: Tensor, count: Any, most: Any) -> Tensor:
    torch._check(count >= 0)
    torch._check(count <= most)
    return values.narrow(0, 0, count)


def _nonzero(self: Tensor) -> Any:
    if self.dim() == 0 or self.is_complex():
        return NotImplemented
    positions = _positions((self != 0).reshape(math.prod(self.shape)))
    columns = []
    for dim, size in enumerate(self.shape):
        inner = math.prod(self.shape[dim + 1 :])
        column = positions // inner if dim < self.dim() - 1 else positions
        columns.append(column % size if dim else column)
    return torch.stack(columns, 1)


def _index(self: Tensor, indices: list[Tensor | None]) -> Any:
    if not any(index is not None and index.dtype in _MASKS for index in indices):
        return NotImplemented
    places: list[Tensor | None] = []
    for index in indices:
        if index is None or index.dtype not in _MASKS:
            places.append(index)
        elif index.dim() == 0:
            return NotImplemented
        else:
            places += _nonzero(index).unbind(1)
    return aten.index.Tensor(self, places)


def _masked_select(self: Tensor, mask: Tensor) -> Any:
    if mask.dim() == 0 and self.dim() == 0:
        return NotImplemented
    values, where = torch.broadcast_tensors(self, mask)
    return _index(values, [where])


def _repeat_interleave(repeats: Tensor, output_size: Any = None) -> Any:
    """At each place the number of elements that end before it."""
    ends = repeats.to(torch.int64).cumsum(0)
    total = repeats.sum().item()
    torch._check(total >= 0)
    if isinstance(repeats.shape[0], int) and repeats.shape[0]:
        least = repeats.amin().item() >= 0
        aten._assert_scalar.default(least, "repeats must not be negative")
    made = ends.new_zeros(total + 1)
    made = aten.index_put(made, (ends,), torch.ones_like(ends), True)
    return made.cumsum(0).narrow(0, 0, total)


def _bincount(self: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Any:
    if not isinstance(self.shape[0], int) or self.shape[0] == 0:
        return NotImplemented
    least = self.amin().item() >= 0
    aten._assert_scalar.default(least, "bincount takes no negative numbers")
    number = torch.clamp_min(self.to(torch.int64).amax() + 1, minlength).item()
    torch._check(number >= 0)
    dtype = torch.int64
    if weights is not None:
        dtype = weights.dtype if weights.dtype == torch.float32 else torch.float64
    values = torch.ones_like(self, dtype=dtype) if weights is None else weights
    made = torch.zeros(number, dtype=dtype)
    return aten.index_put(made, (self.to(torch.int64),), values.to(dtype), True)


def _unique(
    self: Tensor,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
) -> Any:
    size = self.numel()
    if not isinstance(size, int) or size == 0 or self.dtype == torch.bool:
        return NotImplemented
    values, order = torch.sort(self.reshape(size), stable=True)
    differ = values[1:] != values[:-1]
    first = torch.cat([torch.ones(1, dtype=torch.bool), differ])
    positions = _positions(first)
    groups = first.to(torch.int64).cumsum(0) - 1
    inverse = counts = torch.empty(0, dtype=torch.int64)
    if return_inverse:
        inverse = aten.index_put(torch.zeros_like(order), (order,), groups)
        inverse = inverse.reshape(self.shape)
    if return_counts:
        ones = torch.ones_like(groups)
        counts = aten.index_put(torch.zeros_like(groups), (groups,), ones, True)
        counts = counts.narrow(0, 0, positions.shape[0])
    return values[positions], inverse, counts
