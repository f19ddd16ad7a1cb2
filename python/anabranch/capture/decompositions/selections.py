"""Decomposes selections whose sizes the run decides into those that the runtime has
(`describe/own_operators.py`), for packages, which run without PyTorch.

    x[mask, i]   x[nonzero(mask).unbind(1), i]

Where a graph stays in PyTorch's process, such operators are calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ...describe.own_operators import MASKS, single_mask

aten = torch.ops.aten


def decompositions() -> dict[Any, Callable[..., Any]]:
    return {aten.index.Tensor: _index, aten.bincount.default: _bincount}


def _index(self: Tensor, indices: list[Tensor | None]) -> Any:
    masks = [i for i in indices if i is not None and i.dtype in MASKS]
    if not masks or single_mask(indices) is not None:
        return NotImplemented
    places: list[Tensor | None] = []
    for index in indices:
        if index is None or index.dtype not in MASKS:
            places.append(index)
        elif index.dim() == 0:
            return NotImplemented
        else:
            places += aten.nonzero(index).unbind(1)
    return aten.index.Tensor(self, places)


def _bincount(self: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Any:
    """Weights of other types count in f64, as PyTorch's do."""
    if weights is None or weights.dtype in (torch.float32, torch.float64):
        return NotImplemented
    return aten.bincount(self, weights.to(torch.float64), minlength)
