"""Operators of torch_npu that write updates into a tensor."""

from __future__ import annotations

import torch
from torch import Tensor

from ..checks import INTEGERS, check, check_dtype, check_shape
from ..definition import npu_operator
from ..schema import Written


def _places(
    data: Tensor, indices: Tensor, updates: Tensor, axis: int, name: str
) -> tuple[int, Tensor]:
    """The axis counted from the front, and the place of each element along it."""
    check(
        -data.dim() <= axis < data.dim() and axis % data.dim() != 0,
        name,
        f"axis must be one of self's {data.dim()} dimensions but the first, got {axis}",
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
    check_dtype(indices, name, "indices", INTEGERS)
    wanted = [
        u if d == axis else s for d, (s, u) in enumerate(zip(data.shape, updates.shape))
    ]
    wanted[0] = updates.shape[0]
    check_shape(updates, name, "updates", tuple(wanted))
    check(
        updates.shape[0] <= data.shape[0] and updates.shape[axis] <= data.shape[axis],
        name,
        f"updates of shape {tuple(updates.shape)} are larger than self,"
        f" {tuple(data.shape)}",
    )
    steps = torch.arange(updates.shape[axis], device=indices.device)
    shape = [1] * data.dim()
    shape[0], shape[axis] = indices.shape[0], updates.shape[axis]
    places = (indices.to(torch.int64).unsqueeze(-1) + steps).reshape(shape)
    return axis, places.expand(updates.shape)


@npu_operator
def scatter_update(self: Tensor, indices: Tensor, updates: Tensor, axis: int) -> Tensor:
    """A copy of `self` with updates written along `axis`.

    indices  (batch,): where the updates of each batch row begin
    updates  the dtype and number of dimensions of self
    axis     any but the first

    RuntimeError: another shape, dtype or axis.
    """
    axis, places = _places(self, indices, updates, axis, "scatter_update")
    return self.scatter(axis, places, updates)


@npu_operator
def scatter_update_(
    self: Written,
    indices: Tensor,
    updates: Tensor,
    axis: int,
) -> Written:
    """scatter_update into `self`. RuntimeError: as scatter_update raises."""
    axis, places = _places(self, indices, updates, axis, "scatter_update_")
    return self.scatter_(axis, places, updates)


def _at(
    data: Tensor, indices: Tensor, updates: Tensor, name: str
) -> tuple[Tensor, ...]:
    check_dtype(indices, name, "indices", INTEGERS)
    check(
        indices.dim() >= 1 and 0 < indices.shape[-1] <= data.dim(),
        name,
        f"the last dimension of indices must number one to {data.dim()} dimensions of"
        f" self, got {tuple(indices.shape)}",
    )
    check_dtype(updates, name, "updates", (data.dtype,))
    rest = data.shape[indices.shape[-1] :]
    check_shape(updates, name, "updates", (*indices.shape[:-1], *rest))
    return indices.to(torch.int64).unbind(-1)


@npu_operator
def npu_scatter_nd_update(self: Tensor, indices: Tensor, updates: Tensor) -> Tensor:
    """A copy of `self` with `updates` at `indices` (..., d), which index its first d
    dimensions. RuntimeError: another shape or dtype."""
    return self.index_put(_at(self, indices, updates, "npu_scatter_nd_update"), updates)


@npu_operator
def npu_scatter_nd_update_(
    self: Written,
    indices: Tensor,
    updates: Tensor,
) -> Written:
    """npu_scatter_nd_update into `self`. RuntimeError: as npu_scatter_nd_update raises."""
    return self.index_put_(
        _at(self, indices, updates, "npu_scatter_nd_update_"), updates
    )
