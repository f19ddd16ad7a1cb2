"""_npu_quantize_per_tensor of the transformer boost library."""

from __future__ import annotations

import torch
from torch import Tensor

from ..checks import FLOATS, check, check_dtype, check_shape
from ..definition import atb_operator
from ..quantisation.integers import to_int8
from ..schema import Written

_MOST = 8  # dimensions


@atb_operator
def _npu_quantize_per_tensor(
    x: Tensor, scale: Tensor, zero_point: Tensor, y: Written
) -> None:
    """Writes x / scale, rounded half to even, plus zero_point into y. Computed in f32.

    x           a float tensor of up to 8 dimensions
    scale       in x's dtype, and zero_point int8: of shapes that broadcast to x's;
                zero_point may be empty
    y           int8, of x's shape

    RuntimeError: another shape or dtype.
    """
    name = "_npu_quantize_per_tensor"
    for tensor in (x, scale, zero_point, y):
        text = f"ATB tensor supports at most {_MOST} dimensions, but got {tensor.dim()}"
        check(tensor.dim() <= _MOST, name, text)
    check_dtype(x, name, "x", FLOATS)
    check_dtype(scale, name, "scale", (x.dtype,))
    check_dtype(zero_point, name, "zero_point", (torch.int8,))
    check_dtype(y, name, "y", (torch.int8,))
    check_shape(y, name, "y", tuple(x.shape))
    values = (x.to(torch.float32) / scale.to(torch.float32)).round()
    if zero_point.numel() > 0:
        values = values + zero_point
    check_shape(values, name, "scale", tuple(x.shape))
    y.copy_(to_int8(values))
