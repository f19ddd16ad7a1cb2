"""Grouped products of integers and small floats, and what follows them in a layer of
experts.

After Ascend's API reference of torch_npu, page npu_grouped_matmul_finalize_routing, and the
schemas and tests of its MX form and of npu_quant_grouped_matmul_dequant."""

from __future__ import annotations

import torch
from torch import Tensor

from ..checks import FLOATS, INTEGERS, check, check_dtype, check_shape
from ..definition import npu_operator
from ..quantisation.integers import to_int8
from ..quantisation.rows import group_of_rows, row_scale
from ..schema import Written
from .grouped_matmul import quantised_rows, small_rows
from .grouped_rows import are_small_floats, check_integers, ends_of, sizes_of


@npu_operator
def npu_grouped_matmul_finalize_routing(
    x: Tensor,
    w: Tensor,
    group_list: Tensor,
    *,
    scale: Tensor | None = None,
    bias: Tensor | None = None,
    offset: Tensor | None = None,
    pertoken_scale: Tensor | None = None,
    shared_input: Tensor | None = None,
    logit: Tensor | None = None,
    row_index: Tensor | None = None,
    dtype: torch.dtype | None = None,
    shared_input_weight: float | None = 1.0,
    shared_input_offset: int | None = 0,
    output_bs: int | None = 0,
    group_list_type: int | None = 1,
    tuning_config: list[int] | None = None,
    x_dtype: int | None = None,
    w_dtype: int | None = None,
    scale_dtype: int | None = None,
    pertoken_scale_dtype: int | None = None,
) -> Tensor:
    """npu_grouped_matmul of integers or small floats, whose rows are added up at their
    tokens; computed in f32.

    x           (m, k) int8; or float8_e4m3fn, float8_e5m2, or with `x_dtype` bytes of
                hifloat8 or float4
    w           (groups, k, n) int8, or (groups, k, n / 8) int32 with eight int4 each; or
                small floats
    group_list  (groups,) int64: sizes of groups, or with `group_list_type` 0 their ends
    scale       (groups, n) f32; of int4 (groups, parts, n) int64 of npu_trans_quant_param;
                of small floats also bytes of float8_e8m0fnu (groups, k / 64, n, 2)
    bias        of int4 (groups, n) f32: 8 * scale * w summed over k; of small floats
                (groups, n) float
    offset      of int4, the shape of scale, f32: times the sums of x's rows
    pertoken_scale  (m,) f32, or beside bytes of scale bytes (m, k / 64, 2)
    logit       (m,) f32: multiplies the rows
    row_index   (m,) int32 or int64: the row of the result that each row is added to
    shared_input  (rows, n) bf16: times `shared_input_weight`, added to the result from
                the row `shared_input_offset` on
    output_bs   the rows of the result; 0: m
    tuning_config  has no effect on this host

    Returns (output_bs, n) f32; rows of no group add nothing. RuntimeError: another shape,
    dtype or mode.
    """
    name = "npu_grouped_matmul_finalize_routing"
    known = dtype in (None, torch.float32)
    check(known, name, f"dtype must be float32, got {dtype}")
    kinds = x_dtype, w_dtype, scale_dtype, pertoken_scale_dtype
    small = are_small_floats(name, x, [w], kinds)
    for what, tensor in (
        ("scale", scale),
        ("pertoken_scale", pertoken_scale),
        ("logit", logit),
        ("row_index", row_index),
    ):
        check(tensor is not None, name, f"{what} is needed")
    assert scale is not None and logit is not None and row_index is not None
    rows, groups = x.shape[0], w.shape[0]
    check_dtype(logit, name, "logit", (torch.float32,))
    check_shape(logit, name, "logit", (rows,))
    check_dtype(row_index, name, "row_index", INTEGERS)
    check_shape(row_index, name, "row_index", (rows,))
    ends = ends_of(name, group_list, group_list_type, groups)
    operands = scale, pertoken_scale, bias, offset
    if small:
        check(offset is None, name, "offset must be None for small floats")
        check_dtype(bias, name, "bias", FLOATS)
        sizes = sizes_of(ends)
        made = small_rows(x, [w], sizes, 1, [scale], pertoken_scale, kinds, bias)
    else:
        made = _of_integers(name, x, w, ends, operands)
    inside = (group_of_rows(ends, rows) < groups).unsqueeze(-1)
    made = torch.where(inside, made * logit.unsqueeze(-1), 0.0)
    batch = output_bs or rows
    check(batch > 0, name, f"output_bs must not be negative, got {output_bs}")
    result = made.new_zeros(batch, made.shape[1])
    places = torch.where(inside.squeeze(-1), row_index.to(torch.int64), 0)
    result = result.index_add(0, places, made)
    if shared_input is None:
        return result
    return _with_shared(
        name, result, shared_input, shared_input_weight or 0.0, shared_input_offset or 0
    )


def _of_integers(
    name: str,
    x: Tensor,
    w: Tensor,
    ends: Tensor,
    operands: tuple[Tensor, Tensor | None, Tensor | None, Tensor | None],
) -> Tensor:
    """The products in f32. `operands`: scale, pertoken_scale, bias and offset."""
    check_integers(name, x, w, "w")
    check_dtype(x, name, "x", (torch.int8,))
    for what, tensor in (("bias", operands[2]), ("offset", operands[3])):
        text = f"{what} must be None for w of int8"
        check(w.dtype == torch.int32 or tensor is None, name, text)
    return quantised_rows(x, w, sizes_of(ends), 1, *operands)


def _with_shared(
    name: str, result: Tensor, shared: Tensor, weight: float, offset: int
) -> Tensor:
    """The result plus the shared rows times their weight, from the row `offset` on."""
    batch, width = result.shape
    check_dtype(shared, name, "shared_input", (torch.bfloat16,))
    check_shape(shared, name, "shared_input", (shared.shape[0], width))
    fits = 0 <= offset and offset + shared.shape[0] <= batch
    text = f"shared_input of {shared.shape[0]} rows does not fit after"
    check(fits, name, f"{text} shared_input_offset {offset} of {batch} rows")
    rest = batch - offset - shared.shape[0]
    rows = shared.to(torch.float32) * weight
    return result + torch.nn.functional.pad(rows, (0, 0, offset, rest))


@npu_operator
def npu_quant_grouped_matmul_dequant(
    x: Tensor,
    quantized_weight: Tensor,
    weight_scale: Tensor,
    group_list: Tensor,
    *,
    bias: Tensor | None = None,
    x_scale: Tensor | None = None,
    x_offset: Tensor | None = None,
    smooth_scale: Tensor | None = None,
    quant_mode: str | None = "pertoken",
) -> Tensor:
    """Quantises rows, multiplies each group by its weight, and dequantises: (m, n) in x's
    dtype.

    x                 (m, k) f16 or bf16, times `smooth_scale` (k,)
    quantized_weight  (groups, n, k) int8
    weight_scale      (groups, n) f32
    group_list        (groups,) int64: the ends of groups; rows of no group are zeros
    quant_mode        "pertoken": each row by its largest element, or by `x_scale` (m,)
                      f32; "pertensor": by `x_scale` (1,) f32

    RuntimeError: another shape, dtype or mode.
    """
    name = "npu_quant_grouped_matmul_dequant"
    for what, given in (("bias", bias), ("x_offset", x_offset)):
        check(given is None, name, f"{what} must be None")
    known = quant_mode in ("pertoken", "pertensor")
    text = f"quant_mode must be pertoken or pertensor, got {quant_mode!r}"
    check(known, name, text)
    check_dtype(x, name, "x", (torch.float16, torch.bfloat16))
    check(x.dim() == 2, name, f"x must have 2 dimensions, got {x.dim()}")
    check_dtype(quantized_weight, name, "quantized_weight", (torch.int8,))
    right = quantized_weight.dim() == 3 and quantized_weight.shape[2] == x.shape[1]
    text = f"quantized_weight must be (groups, n, {x.shape[1]})"
    check(right, name, f"{text}, got {tuple(quantized_weight.shape)}")
    groups, width, _ = quantized_weight.shape
    check_dtype(weight_scale, name, "weight_scale", (torch.float32,))
    check_shape(weight_scale, name, "weight_scale", (groups, width))
    ends = ends_of(name, group_list, 0, groups)
    check_dtype(smooth_scale, name, "smooth_scale", (x.dtype, torch.float32))
    check_shape(smooth_scale, name, "smooth_scale", (x.shape[1],))
    wide = x.to(torch.float32)
    if smooth_scale is not None:
        wide = wide * smooth_scale.to(torch.float32)
    rows, factor = by_scale(name, wide, x_scale, quant_mode == "pertensor")
    sizes = sizes_of(ends)
    weight = quantized_weight.transpose(1, 2)
    return quantised_rows(rows, weight, sizes, 1, weight_scale, factor).to(x.dtype)


def by_scale(
    name: str, values: Tensor, scale: Tensor | None, one: bool
) -> tuple[Tensor, Tensor]:
    """int8 rows and the scale of each."""
    check_dtype(scale, name, "x_scale", (torch.float32,))
    rows = values.shape[0]
    check_shape(scale, name, "x_scale", (1,) if one else (rows,))
    if scale is None:
        check(not one, name, "quant_mode pertensor needs x_scale")
        return row_scale(values)
    factor = scale.expand(rows)
    return to_int8(values / factor.unsqueeze(-1)), factor.contiguous()


@npu_operator
def npu_groupmatmul_add_fp32(
    x: Tensor, dy: Tensor, group_list: Tensor, grad: Written
) -> None:
    """grad[i] += x_i^T dy_i, computed in f32, for the rows x_i and dy_i of each group.

    x           (m, k) f16 or bf16
    dy          (m, n), in x's dtype
    group_list  (groups,) int64: the ends of groups
    grad        (groups, k, n), or (groups * k, n): f32

    RuntimeError: another shape or dtype.
    """
    name = "npu_groupmatmul_add_fp32"
    check_dtype(x, name, "x", (torch.float16, torch.bfloat16))
    check_dtype(dy, name, "dy", (x.dtype,))
    check_dtype(grad, name, "grad", (torch.float32,))
    check(x.dim() == 2 and dy.dim() == 2, name, "x and dy must be matrices")
    (rows, inner), width = x.shape, dy.shape[1]
    check_shape(dy, name, "dy", (rows, width))
    groups = group_list.shape[0]
    ends = ends_of(name, group_list, 0, groups)
    shapes = (groups, inner, width), (groups * inner, width)
    check_shape(grad, name, "grad", *shapes)
    group = group_of_rows(ends, rows)
    numbers = torch.arange(groups, device=x.device)
    own = (group == numbers.unsqueeze(-1)).unsqueeze(-1)
    left = torch.where(own, x.to(torch.float32), 0.0)
    right = torch.where(own, dy.to(torch.float32), 0.0)
    grad.add_((left.transpose(1, 2) @ right).reshape(grad.shape))
