"""Decomposes histograms of several dimensions.

edges   of each dimension those of a histogram of one, or of the range that is given
counts  each point is added to the bin of which it has reached the lower edges"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

aten = torch.ops.aten


def decompositions() -> dict[Any, Callable[..., Any]]:
    return {
        aten._histogramdd_bin_edges.default: _bin_edges,
        aten._histogramdd_from_bin_cts.default: _from_counts,
        aten._histogramdd_from_bin_tensors.default: _from_edges,
    }


def _bin_edges(
    self: Tensor,
    bins: Sequence[int],
    *,
    range: Sequence[float] | None = None,
    weight: Tensor | None = None,
    density: bool = False,
) -> Any:
    if self.dtype not in (torch.float32, torch.float64):
        return NotImplemented
    if range is None:
        points = self.reshape(-1, len(bins))
        return [
            aten.histogram.bin_ct(points[:, place].contiguous(), count)[1]
            for place, count in enumerate(bins)
        ]
    bounds = list(zip(range[::2], range[1::2]))
    if not all(map(math.isfinite, range)) or any(low > high for low, high in bounds):
        return NotImplemented  # PyTorch says what is wrong
    widened = [(a - 0.5, b + 0.5) if a == b else (a, b) for a, b in bounds]
    return [
        torch.linspace(low, high, count + 1, dtype=self.dtype)
        for count, (low, high) in zip(bins, widened)
    ]


def _from_counts(
    self: Tensor,
    bins: Sequence[int],
    *,
    range: Sequence[float] | None = None,
    weight: Tensor | None = None,
    density: bool = False,
) -> Any:
    edges = _bin_edges(self, bins, range=range)
    if edges is NotImplemented:
        return NotImplemented
    return _from_edges(self, edges, weight=weight, density=density)


def _from_edges(
    self: Tensor,
    bins: Sequence[Tensor],
    *,
    weight: Tensor | None = None,
    density: bool = False,
) -> Any:
    if self.dtype not in (torch.float32, torch.float64):
        return NotImplemented
    points = self.reshape(-1, len(bins))
    shape = [edges.shape[0] - 1 for edges in bins]
    place, inside = _places(points, bins)
    added = torch.ones_like(points[:, 0]) if weight is None else weight.reshape(-1)
    counts = points.new_zeros(math.prod(shape))
    counts = counts.scatter_add(0, place, torch.where(inside, added, 0))
    counts = counts.reshape(shape)
    return _density(counts, bins) if density else counts


def _places(points: Tensor, bins: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """The bin of each point, and whether it has one. The last bin of a dimension has
    both its edges."""
    place, inside = None, None
    for column, edges in enumerate(bins):
        at = points[:, column]
        within = (at >= edges[0]) & (at <= edges[-1])
        found = (at[:, None] >= edges[1:-1]).sum(-1)
        inside = within if inside is None else inside & within
        place = found if place is None else place * (edges.shape[0] - 1) + found
    assert place is not None and inside is not None
    return place, inside


def _density(counts: Tensor, bins: Sequence[Tensor]) -> Tensor:
    found = counts / counts.sum()
    for dim, edges in enumerate(bins):
        shape = [1] * counts.dim()
        shape[dim] = -1
        found = found / edges.diff().reshape(shape)
    return found
