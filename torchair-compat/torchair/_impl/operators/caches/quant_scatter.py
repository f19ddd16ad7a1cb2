"""npu_quant_scatter and npu_quant_scatter_: int8 updates of a cache.

After Ascend's API reference of torch_npu, page npu_quant_scatter."""

from __future__ import annotations

import torch
from torch import Tensor

from ..checks import check, check_shape
from ..definition import npu_operator
from ..quantisation.quantise import npu_quantize
from ..schema import Reserved, Written
from .scatter import scatter_update, scatter_update_


def _quantised(
    name: str,
    updates: Tensor,
    scales: Tensor,
    points: Tensor | None,
    axis: int,
    reduce: str,
) -> Tensor:
    """The values that npu_quant_scatter and its in-place form write."""
    check(reduce == "update", name, f"no such reduce: {reduce!r}")
    scales = _flat(name, "quant_scales", scales, updates, axis)
    if points is not None:
        points = _flat(name, "quant_zero_points", points, updates, axis)
    return npu_quantize(updates, scales, points, torch.qint8, axis, True)


def _flat(name: str, what: str, table: Tensor, updates: Tensor, axis: int) -> Tensor:
    """A table (n,) of one that has as many dimensions as the updates, all 1 but the one
    along `axis`."""
    if table.dim() != updates.dim() or table.dim() == 1:
        return table
    shape = [1] * table.dim()
    shape[axis] = table.shape[axis]
    check_shape(table, name, what, tuple(shape))
    return table.reshape(-1)


@npu_operator
def npu_quant_scatter(
    self: Tensor,
    indices: Tensor,
    updates: Tensor,
    quant_scales: Tensor,
    quant_zero_points: Tensor | None = None,
    axis: int = 0,
    quant_axis: int = 1,
    reduce: str = "update",
    dst_type: Reserved[int | None] = None,
    round_mode: Reserved[str | None] = "rint",
) -> Tensor:
    """scatter_update of `self`, int8, with updates that npu_quantize makes int8 along
    `quant_axis`, by scales (n,), or with as many dimensions as updates. RuntimeError: as
    these two raise, or another `reduce`."""
    told = quant_scales, quant_zero_points, quant_axis, reduce
    rows = _quantised("npu_quant_scatter", updates, *told)
    return scatter_update(self, indices, rows, axis)


@npu_operator
def npu_quant_scatter_(
    self: Written,
    indices: Tensor,
    updates: Tensor,
    quant_scales: Tensor,
    quant_zero_points: Tensor | None = None,
    axis: int = 0,
    quant_axis: int = 1,
    reduce: str = "update",
    dst_type: Reserved[int | None] = None,
    round_mode: Reserved[str | None] = "rint",
) -> Written:
    """npu_quant_scatter into `self`. RuntimeError: as npu_quant_scatter raises."""
    told = quant_scales, quant_zero_points, quant_axis, reduce
    rows = _quantised("npu_quant_scatter_", updates, *told)
    return scatter_update_(self, indices, rows, axis)
