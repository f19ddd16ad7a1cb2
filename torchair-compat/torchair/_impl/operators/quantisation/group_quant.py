"""npu_group_quant: a scale for each group of rows.

After Ascend's API reference of torch_npu, page of its name."""

from __future__ import annotations

import torch
from torch import Tensor

from ..checks import INTEGERS, check, check_dtype, check_shape
from ..definition import npu_operator
from .integers import to_int8


@npu_operator
def npu_group_quant(
    x: Tensor,
    scale: Tensor,
    group_index: Tensor,
    *,
    offset: Tensor | None = None,
    dst_dtype: torch.dtype | None = None,
) -> Tensor:
    """Quantises x to int8: x times the scale of each row's group, plus offset, rounded
    half to even and clamped.

    x            (rows, h)
    scale        (groups, h)
    group_index  (groups,): the end of each group's rows
    offset       (1,)

    RuntimeError: another shape or dtype.
    """
    name = "npu_group_quant"
    check_dtype(x, name, "x")
    check_dtype(group_index, name, "group_index", INTEGERS)
    check(x.dim() == 2, name, f"x must have 2 dimensions, got {x.dim()}")
    known = dst_dtype in (None, torch.int8, torch.qint8)
    check(known, name, f"dst_dtype must be int8, got {dst_dtype}")
    groups = group_index.shape[0]
    check_shape(scale, name, "scale", (groups, x.shape[1]))
    check_shape(offset, name, "offset", (1,), ())
    rows = torch.arange(x.shape[0], device=x.device)
    group = torch.bucketize(rows, group_index.to(torch.int64), right=True)
    table = scale.to(torch.float32)[group.clamp(max=groups - 1)]
    values = x.to(torch.float32) * table
    return to_int8(values if offset is None else values + offset.to(torch.float32))
