"""Grouped products of integers, and what follows them in a layer of experts.

After Ascend's API reference of torch_npu: pages npu_grouped_matmul_swiglu_quant_v2 and
npu_grouped_matmul_finalize_routing; and the schema and tests of
npu_quant_grouped_matmul_dequant."""

from __future__ import annotations

import torch
from torch import Tensor

from ..activations.swiglu import swiglu
from ..checks import INTEGERS, check, check_dtype, check_shape
from ..definition import npu_operator
from ..quantisation.integers import to_int8
from ..quantisation.rows import group_of_rows, of_group, row_scale
from ..schema import Reserved, Written
from .grouped_matmul import quantised_rows

_BYTES = (torch.int8, torch.int32)

_FLOAT32 = 6  # PyTorch's number of the dtype
_FRACTAL_NZ = 29


def _ends(name: str, group_list: Tensor, kind: int | None, groups: int) -> Tensor:
    """The end of each group's rows. RuntimeError: another shape, dtype or kind."""
    check(kind in (0, 1), name, f"group_list_type must be 0 or 1, got {kind}")
    check_dtype(group_list, name, "group_list", (torch.int64,))
    check_shape(group_list, name, "group_list", (groups,))
    return group_list.cumsum(0) if kind == 1 else group_list


def _from_blocks(name: str, weight: Tensor, what: str) -> Tensor:
    """The weight (groups, k, n) of blocks (groups, n / c, k / 16, 16, c), c of them 32 for
    int8 and 8 for int32. A view of a tensor in FRACTAL_NZ has the order of that tensor in
    memory, which is the logical one on this host."""
    if weight.dim() != 5:
        return weight
    groups, across, down, rows, columns = weight.shape
    wanted = 32 if weight.dtype == torch.int8 else 8
    text = f"{what} of 5 dimensions must end with 16 and {wanted}, got"
    right = (rows, columns) == (16, wanted)
    check(right, name, f"{text} {tuple(weight.shape)}")
    shape = groups, down * rows, across * columns
    origin = weight._base
    while origin is not None:
        if getattr(origin, "_npu_format", None) == _FRACTAL_NZ:
            return weight.reshape(shape)
        origin = origin._base
    return weight.permute(0, 2, 3, 1, 4).reshape(shape)


def _check_rows(name: str, x: Tensor, weight: Tensor, what: str) -> None:
    check_dtype(x, name, "x", _BYTES)
    check(x.dim() == 2, name, f"x must have 2 dimensions, got {x.dim()}")
    check_dtype(weight, name, what, _BYTES)
    text = f"{what} must have 3 dimensions, got {weight.dim()}"
    check(weight.dim() == 3, name, text)


@npu_operator
def npu_grouped_matmul_swiglu_quant_v2(
    x: Tensor,
    weight: list[Tensor],
    weight_scale: list[Tensor],
    x_scale: Tensor,
    group_list: Tensor,
    *,
    smooth_scale: Tensor | None = None,
    weight_assist_matrix: list[Tensor] | None = None,
    bias: Tensor | None = None,
    dequant_mode: int | None = 0,
    dequant_dtype: int | None = 0,
    quant_mode: int | None = 0,
    quant_dtype: int | None = 1,
    group_list_type: int | None = 0,
    tuning_config: list[int] | None = None,
    x_dtype: Reserved[int | None] = None,
    weight_dtype: Reserved[int | None] = None,
    weight_scale_dtype: Reserved[int | None] = None,
    x_scale_dtype: Reserved[int | None] = None,
) -> tuple[Tensor, Tensor]:
    """npu_grouped_matmul of integers, silu of the first half of each row times the second
    half, and the rows quantised by their largest element; computed in f32.

    x             (m, k) int8, or (m, k / 8) int32 with eight int4 each
    weight        one tensor (groups, k, n) int8, or with eight int4 in each int32; or
                  these in blocks (groups, n / c, k / 16, 16, c), c is 32 or 8
    weight_scale  one tensor: (groups, n) float; for x of int8 and a weight of int4 int64
                  of npu_trans_quant_param, also (groups, parts, n) with `dequant_mode` 1
    x_scale       (m,) f32
    group_list    (groups,) int64: ends of groups, or with `group_list_type` 1 sizes
    smooth_scale  (groups, n / 2) or (groups,) f32, for x of int4: multiplies the gated
                  rows
    weight_assist_matrix  one tensor (groups, n) f32, which x of int8 and a weight of int4
                  need: 8 * weight_scale * weight summed over k
    tuning_config  has no effect on this host

    Returns int8 (m, n / 2) and f32 (m,); zeros for rows of no group. RuntimeError:
    another shape, dtype or mode.
    """
    name = "npu_grouped_matmul_swiglu_quant_v2"
    check(bias is None, name, "bias must be None")
    for what, value, allowed in (
        ("dequant_mode", dequant_mode, (None, 0, 1)),
        ("dequant_dtype", dequant_dtype, (None, 0, _FLOAT32)),
        ("quant_mode", quant_mode, (None, 0)),
        ("quant_dtype", quant_dtype, (None, 0, 1)),
    ):
        check(value in allowed, name, f"{what} must be one of {allowed}, got {value}")
    for what, given in (("weight", weight), ("weight_scale", weight_scale)):
        check(len(given) == 1, name, f"{what} must have one tensor, got {len(given)}")
    weight = [_from_blocks(name, weight[0], "weight")]
    _check_rows(name, x, weight[0], "weight")
    parts = weight_scale[0].dim() == 3
    text = f"weight_scale of {weight_scale[0].dim()} dimensions does not go with"
    check(parts == (dequant_mode == 1), name, f"{text} dequant_mode {dequant_mode}")
    assist = weight_assist_matrix or []
    mixed = _is_mixed(x, weight[0])
    text = "weight_assist_matrix goes with x of int8 and weight of int4, as one tensor"
    check(len(assist) == int(mixed), name, text)
    packed = x.dtype == torch.int32
    text = f"smooth_scale must be None for x of {x.dtype}"
    check(packed or smooth_scale is None, name, text)
    operands = x, weight[0], weight_scale[0], x_scale, assist[0] if assist else None
    ends = _ends(name, group_list, group_list_type, weight[0].shape[0])
    return _gate(name, operands, ends, smooth_scale)


@npu_operator
def npu_grouped_matmul_swiglu_quant(
    x: Tensor,
    weight: Tensor,
    group_list: Tensor,
    weight_scale: Tensor,
    x_scale: Tensor,
    *,
    bias: Tensor | None = None,
    offset: Reserved[Tensor | None] = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """npu_grouped_matmul_swiglu_quant_v2 with single tensors, for x of int8 and the ends
    of groups.

    weight        (groups, k, n) int8, or with eight int4 in each int32, or in blocks
    weight_scale  (groups, n), or of int4 (groups, parts, n)
    bias          (groups, n) f32, which a weight of int4 needs: 8 * weight_scale * weight
                  summed over k

    Returns int8 (m, n / 2), f32 (m,), and an f32 scalar that nothing reads: 0.
    RuntimeError: another shape or dtype.
    """
    name = "npu_grouped_matmul_swiglu_quant"
    weight = _from_blocks(name, weight, "weight")
    _check_rows(name, x, weight, "weight")
    check_dtype(x, name, "x", (torch.int8,))
    text = "bias goes with weight of int4, which needs it"
    check((bias is not None) == _is_mixed(x, weight), name, text)
    ends = _ends(name, group_list, 0, weight.shape[0])
    operands = x, weight, weight_scale, x_scale, bias
    return *_gate(name, operands, ends, None), x_scale.new_zeros(())


def _is_mixed(x: Tensor, weight: Tensor) -> bool:
    return x.dtype == torch.int8 and weight.dtype == torch.int32


def _gate(
    name: str,
    operands: tuple[Tensor, Tensor, Tensor, Tensor, Tensor | None],
    ends: Tensor,
    smooth: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """The rows of products, gated and quantised. `operands`: x, the weight, its scale, the
    scale of x, and what int8 rows add for a weight of int4."""
    x, weight, scale, x_scale, assist = operands
    _check_rows(name, x, weight, "weight")
    text = "weight_scale of 3 dimensions needs x of int8 and weight of int4"
    check(scale.dim() != 3 or _is_mixed(x, weight), name, text)
    sizes = torch.diff(ends, prepend=ends.new_zeros(1))
    made = quantised_rows(x, weight, sizes, 1, scale, x_scale, assist)
    half = made.shape[1] // 2
    check(
        half * 2 == made.shape[1], name, f"weight must have an even n, got {made.shape}"
    )
    gated = swiglu(made, True)
    groups = weight.shape[0]
    group = group_of_rows(ends, x.shape[0])
    if smooth is not None:
        check_dtype(smooth, name, "smooth_scale", (torch.float32,))
        check_shape(smooth, name, "smooth_scale", (groups, half), (groups,))
        gated = gated * of_group(smooth, group)
    inside = group < groups
    values, scales = row_scale(torch.where(inside.unsqueeze(-1), gated, 0.0))
    return values, torch.where(inside, scales, 0.0)


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
    x_dtype: Reserved[int | None] = None,
    w_dtype: Reserved[int | None] = None,
    scale_dtype: Reserved[int | None] = None,
    pertoken_scale_dtype: Reserved[int | None] = None,
) -> Tensor:
    """npu_grouped_matmul of integers, whose rows are added up at their tokens; computed in
    f32.

    x           (m, k) int8
    w           (groups, k, n) int8, or (groups, k, n / 8) int32 with eight int4 each
    group_list  (groups,) int64: sizes of groups, or with `group_list_type` 0 their ends
    scale       (groups, n) f32; of int4 (groups, parts, n) int64 of npu_trans_quant_param
    bias        of int4 (groups, n) f32: 8 * scale * w summed over k
    offset      of int4, the shape of scale, f32: times the sums of x's rows
    pertoken_scale  (m,) f32
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
    _check_rows(name, x, w, "w")
    check_dtype(x, name, "x", (torch.int8,))
    packed, groups = w.dtype == torch.int32, w.shape[0]
    rows = x.shape[0]
    for what, tensor in (
        ("scale", scale),
        ("pertoken_scale", pertoken_scale),
        ("logit", logit),
        ("row_index", row_index),
    ):
        check(tensor is not None, name, f"{what} is needed")
    assert scale is not None and logit is not None and row_index is not None
    for what, tensor in (("bias", bias), ("offset", offset)):
        text = f"{what} must be None for w of int8"
        check(packed or tensor is None, name, text)
    check_dtype(logit, name, "logit", (torch.float32,))
    check_shape(logit, name, "logit", (rows,))
    check_dtype(row_index, name, "row_index", INTEGERS)
    check_shape(row_index, name, "row_index", (rows,))
    ends = _ends(name, group_list, group_list_type, groups)
    sizes = torch.diff(ends, prepend=ends.new_zeros(1))
    operands = scale, pertoken_scale, bias, offset
    made = quantised_rows(x, w, sizes, 1, *operands)
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
    ends = _ends(name, group_list, 0, groups)
    check_dtype(smooth_scale, name, "smooth_scale", (x.dtype, torch.float32))
    check_shape(smooth_scale, name, "smooth_scale", (x.shape[1],))
    wide = x.to(torch.float32)
    if smooth_scale is not None:
        wide = wide * smooth_scale.to(torch.float32)
    rows, factor = by_scale(name, wide, x_scale, quant_mode == "pertensor")
    sizes = torch.diff(ends, prepend=ends.new_zeros(1))
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
    ends = _ends(name, group_list, 0, groups)
    shapes = (groups, inner, width), (groups * inner, width)
    check_shape(grad, name, "grad", *shapes)
    group = group_of_rows(ends, rows)
    numbers = torch.arange(groups, device=x.device)
    own = (group == numbers.unsqueeze(-1)).unsqueeze(-1)
    left = torch.where(own, x.to(torch.float32), 0.0)
    right = torch.where(own, dy.to(torch.float32), 0.0)
    grad.add_((left.transpose(1, 2) @ right).reshape(grad.shape))
