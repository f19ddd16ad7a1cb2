"""Products of rows with matrices of their own: adapters of low rank.

After the schemas of Ascend's op-plugin, npu_batch_gather_matmul and its form that
writes."""

from __future__ import annotations

import torch
from torch import Tensor

from ..checks import INTEGERS, check, check_dtype, check_shape
from ..definition import npu_operator
from ..schema import Written


@npu_operator
def npu_batch_gather_matmul(
    self: Written,
    x: Tensor,
    weight_b: Tensor,
    indices: Tensor,
    weight_a: Tensor | None = None,
    layer_idx: int = 0,
    scale: float = 1e-3,
    y_offset: int = 0,
    y_slice_size: int = -1,
) -> Written:
    """Adds scale * x @ A^T @ B^T to columns of self, with the matrices of each row: those
    of indices[row] and of a layer. Each product is rounded to self's dtype.

    self       (rows, n) float: written, as on an NPU
    x          (rows, k) in its dtype
    weight_b   (adapters, layers, y_slice_size, r), or (..., k) without weight_a
    weight_a   (adapters, layers, r, k)
    indices    (rows,) integers; the number of adapters stands for none
    y_offset, y_slice_size  the columns; -1: all of them

    RuntimeError: another shape or dtype.
    """
    name = "npu_batch_gather_matmul"
    given = weight_b, indices, weight_a, layer_idx, scale, y_offset, y_slice_size
    return _added(name, self, x, *given)


@npu_operator
def npu_batch_gather_matmul_(
    self: Written,
    x: Tensor,
    weight_b: Tensor,
    indices: Tensor,
    weight_a: Tensor | None = None,
    layer_idx: int = 0,
    scale: float = 1e-3,
    y_offset: int = 0,
    y_slice_size: int = -1,
) -> Written:
    """npu_batch_gather_matmul by its other name. RuntimeError: as there."""
    name = "npu_batch_gather_matmul_"
    given = weight_b, indices, weight_a, layer_idx, scale, y_offset, y_slice_size
    return _added(name, self, x, *given)


def _added(
    name: str,
    y: Tensor,
    x: Tensor,
    weight_b: Tensor,
    indices: Tensor,
    weight_a: Tensor | None,
    layer: int,
    scale: float,
    start: int,
    size: int,
) -> Tensor:
    check_dtype(y, name, "self")
    check(y.dim() == 2, name, f"self must have 2 dimensions, got {y.dim()}")
    rows, width = y.shape
    size = width if size == -1 else size
    fits = 0 <= start and 0 < size and start + size <= width
    check(fits, name, f"y_offset {start} and y_slice_size {size} leave {width} columns")
    check_dtype(x, name, "x", (y.dtype,))
    check(x.dim() == 2 and x.shape[0] == rows, name, f"x must have {rows} rows")
    check_dtype(indices, name, "indices", INTEGERS)
    check_shape(indices, name, "indices", (rows,))
    check(weight_b.dim() == 4, name, "weight_b must have 4 dimensions")
    adapters, layers, _, depth = weight_b.shape
    check(0 <= layer < layers, name, f"layer_idx must be below {layers}, got {layer}")
    inner = x.shape[1] if weight_a is None else depth
    for what, weight, shape in (
        ("weight_b", weight_b, (adapters, layers, size, inner)),
        ("weight_a", weight_a, (adapters, layers, depth, x.shape[1])),
    ):
        check_dtype(weight, name, what, (y.dtype,))
        check_shape(weight, name, what, shape)
    own = indices.to(torch.int64)
    known = (own < adapters).unsqueeze(-1)
    own = own.clamp(max=adapters - 1)
    values = x
    for weight in (weight_a, weight_b):
        if weight is not None:
            table = weight[:, layer][own]
            values = torch.bmm(table, values.unsqueeze(-1)).squeeze(-1)
    values = torch.where(known, values * scale, torch.zeros_like(values))
    y[:, start : start + size].add_(values)
    return y
