"""Operators of torch_npu that write updates into a tensor."""

from __future__ import annotations

import torch
from torch import Tensor

from .library import check, operator


def _places(
    data: Tensor, indices: Tensor, updates: Tensor, axis: int, name: str
) -> tuple[int, Tensor]:
    """The axis from the front, and where along it each element goes."""
    check(
        -data.dim() <= axis < data.dim() and axis % data.dim() != 0,
        name,
        f"axis must be one of data's but the first, got {axis}",
    )
    axis %= data.dim()
    check(
        updates.dim() == data.dim() and updates.dtype == data.dtype,
        name,
        "updates must have the dtype and the number of dimensions of data",
    )
    check(
        indices.dim() == 1 and indices.shape[0] == updates.shape[0],
        name,
        f"indices must have shape ({updates.shape[0]},), got {tuple(indices.shape)}",
    )
    steps = torch.arange(updates.shape[axis], device=indices.device)
    shape = [1] * data.dim()
    shape[0], shape[axis] = indices.shape[0], updates.shape[axis]
    places = (indices.to(torch.int64).unsqueeze(-1) + steps).reshape(shape)
    return axis, places.expand(updates.shape)


@operator("(Tensor self, Tensor indices, Tensor updates, int axis) -> Tensor")
def scatter_update(self: Tensor, indices: Tensor, updates: Tensor, axis: int) -> Tensor:
    """A copy of `self` with the updates of each batch row written along `axis` from
    the row's index on. Raises RuntimeError."""
    axis, places = _places(self, indices, updates, axis, "scatter_update")
    return self.scatter(axis, places, updates)


@operator("(Tensor(a!) self, Tensor indices, Tensor updates, int axis) -> Tensor(a!)")
def scatter_update_(
    self: Tensor, indices: Tensor, updates: Tensor, axis: int
) -> Tensor:
    """scatter_update into `self`. Raises RuntimeError."""
    axis, places = _places(self, indices, updates, axis, "scatter_update_")
    return self.scatter_(axis, places, updates)


def _at(indices: Tensor, name: str) -> tuple[Tensor, ...]:
    check(
        indices.dim() >= 1 and not indices.is_floating_point(),
        name,
        "indices must be integers with one dimension or more",
    )
    return indices.to(torch.int64).unbind(-1)


@operator("(Tensor self, Tensor indices, Tensor updates) -> Tensor")
def npu_scatter_nd_update(self: Tensor, indices: Tensor, updates: Tensor) -> Tensor:
    """A copy of `self` with `updates` at `indices` (..., d), which number its first
    d dimensions. Raises RuntimeError."""
    return self.index_put(_at(indices, "npu_scatter_nd_update"), updates)


@operator("(Tensor(a!) self, Tensor indices, Tensor updates) -> Tensor(a!)")
def npu_scatter_nd_update_(self: Tensor, indices: Tensor, updates: Tensor) -> Tensor:
    """npu_scatter_nd_update into `self`. Raises RuntimeError."""
    return self.index_put_(_at(indices, "npu_scatter_nd_update_"), updates)
