"""Decomposes selections and assignments by masks into those that the runtime has
(`describe/own_operators.py`), so that no program calls PyTorch for them.

    x[mask, i]              x[nonzero(mask).unbind(1), i]
    x[mask, i] = y          the same places
    x[mask] += y, adding    x, and its sum with zeros[mask] = y where the mask holds

A mask chooses each position once, so the sum needs no order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._guards import detect_fake_mode

from ...describe.own_operators import MASKS, single_mask

aten = torch.ops.aten

Indices = Sequence["Tensor | None"]


def decompositions() -> dict[Any, Callable[..., Any]]:
    return {
        aten.index.Tensor: _index,
        aten.index_put.default: _index_put,
        aten.bincount.default: _bincount,
    }


def _index(self: Tensor, indices: Indices) -> Any:
    if not _has_masks(indices) or single_mask(indices) is not None:
        return NotImplemented
    return aten.index.Tensor(self, _places(indices))


def _index_put(
    self: Tensor, indices: Indices, values: Tensor, accumulate: bool = False
) -> Any:
    if not _has_masks(indices):
        return NotImplemented
    mask = single_mask(indices)
    if mask is None:
        if not _may_find_sizes(self):
            return NotImplemented
        return aten.index_put(self, _places(indices), values, accumulate)
    if values.dtype != self.dtype and values.dim() == 0:
        return aten.index_put(self, indices, values.to(self.dtype), accumulate)
    if not accumulate or values.dtype != self.dtype or self.is_complex():
        return NotImplemented
    added = aten.index_put(torch.zeros_like(self), indices, values)
    behind = self.dim() - len(indices) - mask.dim() + 1
    chosen = mask.to(torch.bool).reshape(*mask.shape, *([1] * behind))
    return torch.where(chosen, self + added, self)


def _has_masks(indices: Indices) -> bool:
    """Whether there are masks, each with dimensions: a single truth value adds one."""
    masks = [index for index in indices if index is not None and index.dtype in MASKS]
    return bool(masks) and all(mask.dim() for mask in masks)


def _places(indices: Indices) -> list[Tensor | None]:
    """The indices, with the places that it chooses for each mask."""
    places: list[Tensor | None] = []
    for index in indices:
        if index is None or index.dtype not in MASKS:
            places.append(index)
        else:
            places += aten.nonzero(index).unbind(1)
    return places


def _may_find_sizes(self: Tensor) -> bool:
    """Whether the trace takes operators whose sizes the run decides."""
    mode = detect_fake_mode(self)
    return (
        mode is not None
        and mode.shape_env is not None
        and mode.shape_env.allow_dynamic_output_shape_ops
    )


def _bincount(self: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Any:
    """Weights of other types count in f64, as PyTorch's do."""
    if weights is None or weights.dtype in (torch.float32, torch.float64):
        return NotImplemented
    return aten.bincount(self, weights.to(torch.float64), minlength)
