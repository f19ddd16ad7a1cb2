"""Products that are added to a tensor, and a product of rows that it quantises itself.

After Ascend's API reference of torch_npu, page npu_add_quant_matmul_, and the schemas and
tests of npu_grouped_matmul_add and npu_quant_matmul_dequant."""

from __future__ import annotations

import torch
from torch import Tensor

from ..checks import check, check_dtype, check_shape
from ..definition import npu_operator
from ..element_types import scalar_type
from ..quantisation.integer_sums import integer_product
from ..quantisation.rows import group_of_rows
from ..schema import Written
from .grouped_quant import by_scale
from .small_products import E8M0_BYTES, small_product

_HALF = (torch.float16, torch.bfloat16)
_FLOAT32 = 6  # PyTorch's number of the dtype


def _quantised_sum(
    name: str,
    self: Tensor,
    x1: Tensor,
    x2: Tensor,
    x2_scale: Tensor,
    x1_scale: Tensor | None,
    group_sizes: list[int] | None,
    numbers: tuple[int | None, int | None, int | None, int | None],
) -> Tensor:
    check_dtype(self, name, "self", (torch.float32,))
    for what, operand in (("x1", x1), ("x2", x2)):
        check(
            operand.dim() == 2, name, f"{what} must have 2 dimensions: {operand.dim()}"
        )
    check(x1_scale is not None, name, "x1_scale is needed")
    assert x1_scale is not None
    depths = x1.shape[0], x2.shape[0]
    text = f"x1 and x2 must have as many rows, got {depths[0]} and {depths[1]}"
    check(depths[0] == depths[1], name, text)
    mx = x2_scale.dim() == 3
    known = [[0, 0, 0]] + ([[1, 1, 32]] if mx else [])
    right = group_sizes is None or list(group_sizes) in known
    text = f"group_sizes must be None or one of {known}, got {group_sizes}"
    check(right, name, text)
    check_shape(self, name, "self", (x1.shape[1], x2.shape[1]))
    rows = x1_scale
    if mx:
        check_dtype(x1_scale, name, "x1_scale", E8M0_BYTES)
        check_dtype(x2_scale, name, "x2_scale", E8M0_BYTES)
        check_shape(x1_scale, name, "x1_scale", (-(-depths[0] // 64), x1.shape[1], 2))
        rows = x1_scale.transpose(0, 1)
    first, second, of_rows, of_columns = numbers
    if not mx:
        scalar_type(of_rows, name, "x1_scale_dtype", (torch.float32,))
    made = small_product(
        name,
        x1.t(),
        x2,
        x2_scale,
        rows,
        None,
        x1_dtype=first,
        x2_dtype=second,
        pertoken_scale_dtype=of_rows,
        scale_dtype=of_columns,
        output_dtype=_FLOAT32,
    )
    return self + made


@npu_operator
def npu_add_quant_matmul(
    self: Tensor,
    x1: Tensor,
    x2: Tensor,
    x2_scale: Tensor,
    *,
    x1_scale: Tensor | None = None,
    group_sizes: list[int] | None = None,
    x1_dtype: int | None = None,
    x2_dtype: int | None = None,
    x1_scale_dtype: int | None = None,
    x2_scale_dtype: int | None = None,
) -> Tensor:
    """self (m, n) f32 plus x1 (k, m)^T @ x2 (k, n) of small floats with their scales.

    x1, x2        float8_e4m3fn, float8_e5m2, or with x1_dtype and x2_dtype bytes of hifloat8
    x1_scale, x2_scale  f32 (1,); or bytes of float8_e8m0fnu (k / 64, m, 2) and (k / 64, n,
                  2), with x1_scale_dtype and x2_scale_dtype for bytes of uint8
    group_sizes   zeros, or [1, 1, 32] for such bytes

    RuntimeError: another shape or dtype.
    """
    numbers = x1_dtype, x2_dtype, x1_scale_dtype, x2_scale_dtype
    told = self, x1, x2, x2_scale, x1_scale, group_sizes, numbers
    return _quantised_sum("npu_add_quant_matmul", *told)


@npu_operator
def npu_add_quant_matmul_(
    self: Written,
    x1: Tensor,
    x2: Tensor,
    x2_scale: Tensor,
    *,
    x1_scale: Tensor | None = None,
    group_sizes: list[int] | None = None,
    x1_dtype: int | None = None,
    x2_dtype: int | None = None,
    x1_scale_dtype: int | None = None,
    x2_scale_dtype: int | None = None,
) -> Written:
    """npu_add_quant_matmul into `self`. RuntimeError: as that operator raises."""
    numbers = x1_dtype, x2_dtype, x1_scale_dtype, x2_scale_dtype
    told = self, x1, x2, x2_scale, x1_scale, group_sizes, numbers
    return self.copy_(_quantised_sum("npu_add_quant_matmul_", *told))


def _grouped_sum(
    name: str,
    self: Tensor,
    x: Tensor,
    weight: Tensor,
    group_list: Tensor,
    options: tuple[bool, bool, int, int | None],
) -> Tensor:
    for what, value, wanted in zip(
        ("transpose_x", "transpose_weight", "group_type", "group_list_type"),
        options,
        (True, False, 2, 0),
    ):
        check(value == wanted, name, f"{what} must be {wanted}, got {value}")
    check_dtype(x, name, "x", _HALF)
    check_dtype(weight, name, "weight", (x.dtype,))
    check_dtype(self, name, "self", (torch.float32,))
    for what, operand in (("x", x), ("weight", weight)):
        check(
            operand.dim() == 2, name, f"{what} must have 2 dimensions: {operand.dim()}"
        )
    (rows, height), width = x.shape, weight.shape[1]
    check_shape(weight, name, "weight", (rows, width))
    check_dtype(group_list, name, "group_list", (torch.int64,))
    check(group_list.dim() == 1, name, "group_list must have 1 dimension")
    groups = group_list.shape[0]
    shapes = (groups, height, width), (groups * height, width)
    check_shape(self, name, "self", *shapes)
    group = group_of_rows(group_list, rows)
    own = (group == torch.arange(groups, device=x.device).unsqueeze(-1)).unsqueeze(-1)
    left = torch.where(own, x.to(torch.float32), 0.0)
    right = torch.where(own, weight.to(torch.float32), 0.0)
    return self + (left.transpose(1, 2) @ right).reshape(self.shape)


@npu_operator
def npu_grouped_matmul_add(
    self: Tensor,
    x: Tensor,
    weight: Tensor,
    group_list: Tensor,
    *,
    transpose_x: bool = True,
    transpose_weight: bool = False,
    group_type: int = 2,
    group_list_type: int | None = 0,
) -> Tensor:
    """self plus x_i^T weight_i for the rows of each group; computed in f32.

    self        (groups, k, n) or (groups * k, n) f32
    x           (m, k) and weight (m, n), float16 or bfloat16
    group_list  (groups,) int64: the ends of groups

    RuntimeError: another shape, dtype or option.
    """
    options = transpose_x, transpose_weight, group_type, group_list_type
    name = "npu_grouped_matmul_add"
    return _grouped_sum(name, self, x, weight, group_list, options)


@npu_operator
def npu_grouped_matmul_add_(
    self: Written,
    x: Tensor,
    weight: Tensor,
    group_list: Tensor,
    *,
    transpose_x: bool = True,
    transpose_weight: bool = False,
    group_type: int = 2,
    group_list_type: int | None = 0,
) -> Written:
    """npu_grouped_matmul_add into `self`. RuntimeError: as that operator raises."""
    options = transpose_x, transpose_weight, group_type, group_list_type
    name = "npu_grouped_matmul_add_"
    return self.copy_(_grouped_sum(name, self, x, weight, group_list, options))


@npu_operator
def npu_quant_matmul_dequant(
    x: Tensor,
    quantized_weight: Tensor,
    weight_scale: Tensor,
    *,
    bias: Tensor | None = None,
    x_scale: Tensor | None = None,
    x_offset: Tensor | None = None,
    smooth_scale: Tensor | None = None,
    quant_mode: str | None = "pertoken",
) -> Tensor:
    """Quantises rows, multiplies them by a weight, and dequantises: (m, n) in x's dtype.

    x                 (m, k) float16 or bfloat16, times `smooth_scale` (k,)
    quantized_weight  (n, k) int8
    weight_scale      (n,) f32
    quant_mode        "pertoken": each row by its largest element, or by `x_scale` (m,) f32;
                      "pertensor": by `x_scale` (1,) f32

    RuntimeError: another shape, dtype or mode.
    """
    name = "npu_quant_matmul_dequant"
    for what, given in (("bias", bias), ("x_offset", x_offset)):
        check(given is None, name, f"{what} must be None")
    known = quant_mode in ("pertoken", "pertensor")
    text = f"quant_mode must be pertoken or pertensor, got {quant_mode!r}"
    check(known, name, text)
    check_dtype(x, name, "x", _HALF)
    check(x.dim() == 2, name, f"x must have 2 dimensions, got {x.dim()}")
    check_dtype(quantized_weight, name, "quantized_weight", (torch.int8,))
    width = quantized_weight.shape[0]
    check_shape(quantized_weight, name, "quantized_weight", (width, x.shape[1]))
    check_dtype(weight_scale, name, "weight_scale", (torch.float32,))
    check_shape(weight_scale, name, "weight_scale", (width,))
    check_dtype(smooth_scale, name, "smooth_scale", (x.dtype, torch.float32))
    check_shape(smooth_scale, name, "smooth_scale", (x.shape[1],))
    wide = x.to(torch.float32)
    wide = wide if smooth_scale is None else wide * smooth_scale.to(torch.float32)
    rows, factor = by_scale(name, wide, x_scale, quant_mode == "pertensor")
    sums = integer_product(rows, quantized_weight.t()).to(torch.float32)
    return (sums * weight_scale * factor.unsqueeze(-1)).to(x.dtype)
