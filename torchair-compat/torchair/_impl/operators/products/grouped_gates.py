"""Grouped products, a gate, and quantised rows: the first half of a layer of experts.

After Ascend's API reference of torch_npu, page npu_grouped_matmul_swiglu_quant_v2, and of
its kernels, page aclnnGroupedMatmulSwigluQuantV2."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ..activations.swiglu import swiglu
from ..checks import check, check_dtype, check_shape
from ..definition import npu_operator
from ..element_types import element_type, scalar_type
from ..quantisation.blocks import mx_blocks
from ..quantisation.rows import group_of_rows, of_group, unit_for_zero
from ..quantisation.stored import largest_of, stored
from ..schema import Reserved
from .grouped_matmul import quantised_rows, small_rows
from .grouped_rows import (
    are_small_floats,
    check_integers,
    ends_of,
    from_blocks,
    sizes_of,
)
from .small_products import E8M0_BYTES

_BLOCKS = 2  # the mode of scales of blocks of 32, for operands and for results
_ROW_TYPES = ("int8", "float8_e4m3fn", "float8_e5m2", "hifloat8")
_KINDS = (torch.float32, torch.float16, torch.bfloat16)


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
    x_dtype: int | None = None,
    weight_dtype: int | None = None,
    weight_scale_dtype: int | None = None,
    x_scale_dtype: int | None = None,
) -> tuple[Tensor, Tensor]:
    """npu_grouped_matmul of integers or small floats, silu of the first half of each row
    times the second half, and the rows quantised; computed in f32.

    x             (m, k) int8, or (m, k / 8) int32 with eight int4 each; or float8_e4m3fn,
                  float8_e5m2, or with `x_dtype` bytes of hifloat8 or float4
    weight        one tensor (groups, k, n) int8, or with eight int4 in each int32; or
                  these in blocks (groups, n / c, k / 16, 16, c), c is 32 or 8. Of small
                  floats also a list of (k, n) for each group
    weight_scale  for each weight (groups, n) float; for x of int8 and a weight of int4
                  int64 of npu_trans_quant_param, also (groups, parts, n) with
                  `dequant_mode` 1; with `dequant_mode` 2 bytes of float8_e8m0fnu (groups,
                  k / 64, n, 2)
    x_scale       (m,) f32, or with `dequant_mode` 2 bytes (m, k / 64, 2)
    group_list    (groups,) int64: ends of groups, or with `group_list_type` 1 sizes
    smooth_scale  (groups, n / 2) or (groups,) f32, for x of int4: multiplies the gated
                  rows
    weight_assist_matrix  one tensor (groups, n) f32, which x of int8 and a weight of int4
                  need: 8 * weight_scale * weight summed over k
    dequant_dtype  float32 (0), float16 or bfloat16: products are rounded to it
    quant_mode    0: each row by its largest element, to quant_dtype int8 (0), float8_e4m3fn,
                  float8_e5m2 or hifloat8. 2: as npu_dynamic_mx_quant does
    tuning_config  has no effect on this host

    Returns (m, n / 2) and f32 (m,), or for `quant_mode` 2 float8_e8m0fnu (m, n / 128, 2);
    zeros for rows of no group. RuntimeError: another shape, dtype or mode.
    """
    name = "npu_grouped_matmul_swiglu_quant_v2"
    check(bias is None, name, "bias must be None")
    for what, value, allowed in (
        ("dequant_mode", dequant_mode, (None, 0, 1, _BLOCKS)),
        ("quant_mode", quant_mode, (None, 0, _BLOCKS)),
    ):
        check(value in allowed, name, f"{what} must be one of {allowed}, got {value}")
    kind = scalar_type(dequant_dtype or 6, name, "dequant_dtype", _KINDS)
    assert kind is not None
    weight = [from_blocks(name, one, "weight") for one in weight]
    groups = weight[0].shape[0] if weight[0].dim() == 3 else len(weight)
    ends = ends_of(name, group_list, group_list_type, groups)
    assist = weight_assist_matrix or []
    kinds = x_dtype, weight_dtype, weight_scale_dtype, x_scale_dtype
    if are_small_floats(name, x, weight, kinds):
        check(not assist, name, "weight_assist_matrix goes with x of int8")
        _check_scales(name, weight_scale, x_scale, dequant_mode)
        sizes = sizes_of(ends)
        made = small_rows(x, weight, sizes, 1, weight_scale, x_scale, kinds)
    else:
        for what, given in (("weight", weight), ("weight_scale", weight_scale)):
            text = f"{what} must have one tensor, got {len(given)}"
            check(len(given) == 1, name, text)
        scale = weight_scale[0]
        mode = 1 if scale.dim() == 3 else 0
        text = f"weight_scale of {scale.dim()} dimensions does not go with"
        check(mode == (dequant_mode or 0), name, f"{text} dequant_mode {dequant_mode}")
        mixed = _is_mixed(x, weight[0])
        text = (
            "weight_assist_matrix goes with x of int8 and weight of int4, as one tensor"
        )
        check(len(assist) == int(mixed), name, text)
        operands = x, weight[0], scale, x_scale, assist[0] if assist else None
        made = _of_integers(name, operands, ends)
    packed = x.dtype == torch.int32
    text = f"smooth_scale must be None for x of {x.dtype}"
    check(packed or smooth_scale is None, name, text)
    gated, inside = _gated(name, made.to(kind), ends, smooth_scale)
    if quant_mode == _BLOCKS:
        blocks = mx_blocks(name, quant_dtype or 1, "rint", argument="quant_dtype")
        values, scales = blocks.quantise(gated)
        return values, scales.view(torch.float8_e8m0fnu)
    return _by_rows(name, gated, inside, quant_dtype or 1)


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
    weight = from_blocks(name, weight, "weight")
    check_integers(name, x, weight, "weight")
    check_dtype(x, name, "x", (torch.int8,))
    text = "bias goes with weight of int4, which needs it"
    check((bias is not None) == _is_mixed(x, weight), name, text)
    ends = ends_of(name, group_list, 0, weight.shape[0])
    operands = x, weight, weight_scale, x_scale, bias
    gated, inside = _gated(name, _of_integers(name, operands, ends), ends, None)
    return *_by_rows(name, gated, inside, 1), x_scale.new_zeros(())


def _is_mixed(x: Tensor, weight: Tensor) -> bool:
    return x.dtype == torch.int8 and weight.dtype == torch.int32


def _check_scales(
    name: str, weight_scale: Sequence[Tensor], x_scale: Tensor, mode: int | None
) -> None:
    for what, scale in (
        ("x_scale", x_scale),
        *(("weight_scale", s) for s in weight_scale),
    ):
        fits = (scale.dtype in E8M0_BYTES) == (mode == _BLOCKS)
        text = f"{what} of {scale.dtype} does not go with dequant_mode {mode}"
        check(fits, name, text)


def _of_integers(
    name: str,
    operands: tuple[Tensor, Tensor, Tensor, Tensor, Tensor | None],
    ends: Tensor,
) -> Tensor:
    """The products in f32. `operands`: x, the weight, its scale, the scale of x, and what
    int8 rows add for a weight of int4."""
    x, weight, scale, x_scale, assist = operands
    check_integers(name, x, weight, "weight")
    text = "weight_scale of 3 dimensions needs x of int8 and weight of int4"
    check(scale.dim() != 3 or _is_mixed(x, weight), name, text)
    return quantised_rows(x, weight, sizes_of(ends), 1, scale, x_scale, assist)


def _gated(
    name: str, made: Tensor, ends: Tensor, smooth: Tensor | None
) -> tuple[Tensor, Tensor]:
    """The gated rows in f32, and which rows a group has; others are 0."""
    half = made.shape[1] // 2
    check(
        half * 2 == made.shape[1], name, f"weight must have an even n, got {made.shape}"
    )
    gated = swiglu(made.to(torch.float32), True)
    groups = ends.shape[0]
    group = group_of_rows(ends, made.shape[0])
    if smooth is not None:
        check_dtype(smooth, name, "smooth_scale", (torch.float32,))
        check_shape(smooth, name, "smooth_scale", (groups, half), (groups,))
        gated = gated * of_group(smooth, group)
    inside = group < groups
    return torch.where(inside.unsqueeze(-1), gated, 0.0), inside


def _by_rows(
    name: str, gated: Tensor, inside: Tensor, number: int
) -> tuple[Tensor, Tensor]:
    """Rows by their largest elements. Rows of no group have scale 0."""
    element = element_type(number, name, "quant_dtype", _ROW_TYPES)
    scale = unit_for_zero(gated.abs().amax(-1) / largest_of(element))
    values = stored(gated / scale.unsqueeze(-1), element)
    return values, torch.where(inside, scale, 0.0)
