"""npu_dequant_bias: sums of integers become floats.

After the schema of op-plugin, and the reference of its kernel, page aclnnDequantBias."""

from __future__ import annotations

import torch
from torch import Tensor

from ..checks import FLOATS, check, check_dtype, check_shape
from ..definition import npu_operator

_RESULTS = (torch.float16, torch.bfloat16)


def dequantised(
    name: str,
    x: Tensor,
    weight_scale: Tensor,
    activation_scale: Tensor | None,
    bias: Tensor | None,
) -> Tensor:
    """int32 rows (m, n) times both scales plus bias, in f32. A bias of int32 is added
    first. RuntimeError: another shape or dtype."""
    check_dtype(x, name, "x", (torch.int32,))
    check(x.dim() == 2, name, f"x must have 2 dimensions, got {x.dim()}")
    rows, columns = x.shape
    check_dtype(weight_scale, name, "weight_scale", (torch.float32, torch.bfloat16))
    check_shape(weight_scale, name, "weight_scale", (columns,))
    check_dtype(activation_scale, name, "activation_scale", (torch.float32,))
    check_shape(activation_scale, name, "activation_scale", (rows,))
    check_dtype(bias, name, "bias", (*FLOATS, torch.int32))
    check_shape(bias, name, "bias", (columns,))
    whole = bias is not None and bias.dtype == torch.int32
    sums = x + bias if whole and bias is not None else x
    made = sums.to(torch.float32) * weight_scale.to(torch.float32)
    if activation_scale is not None:
        made = made * activation_scale.unsqueeze(-1)
    return made if bias is None or whole else made + bias.to(torch.float32)


@npu_operator
def npu_dequant_bias(
    x: Tensor,
    weight_scale: Tensor,
    activation_scale: Tensor | None,
    bias: Tensor | None,
    *,
    output_dtype: torch.dtype | None = None,
) -> Tensor:
    """x times the scales of columns and of rows, plus bias; computed in f32.

    x                 (m, n) int32
    weight_scale      (n,) float32 or bfloat16; activation_scale: (m,) float32
    bias              (n,) float, or int32, which is added before the scales
    output_dtype      float16 (None) or bfloat16

    RuntimeError: another shape or dtype.
    """
    name = "npu_dequant_bias"
    kind = output_dtype or torch.float16
    known = kind in _RESULTS
    check(known, name, f"output_dtype must be float16 or bfloat16, got {output_dtype}")
    return dequantised(name, x, weight_scale, activation_scale, bias).to(kind)
