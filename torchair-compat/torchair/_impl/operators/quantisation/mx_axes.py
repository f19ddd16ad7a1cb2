"""MX blocks along rows and along columns of one tensor, and back from them.

After the reference of Ascend's kernels, pages aclnnDynamicMxQuantWithDualAxis,
aclnnDynamicBlockMxQuant and aclnnAntiMxQuant."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from ..checks import check, check_dtype, check_shape
from ..definition import npu_operator
from ..element_types import given_type, scalar_type
from .blocks import MX_TYPES, MxBlocks, mx_blocks
from .small_floats import scale_values


@npu_operator
def npu_dynamic_mx_quant_with_dual_axis(
    input: Tensor,
    *,
    round_mode: str = "rint",
    dst_type: int = 296,
    scale_alg: int = 0,
    dst_type_max: float | None = 0.0,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """npu_dynamic_mx_quant along the last dimension, and along the last but one.

    input  float16 or bfloat16, of 2 to 7 dimensions

    Returns the elements and scales of the one, then those of the other. RuntimeError:
    another shape, dtype or option.
    """
    name = "npu_dynamic_mx_quant_with_dual_axis"
    blocks = _blocks(input, name, dst_type, round_mode, scale_alg, dst_type_max or 0.0)
    return *blocks.quantise(input), *blocks.quantise(input, -2)


@npu_operator
def npu_dynamic_block_mx_quant(
    input: Tensor,
    *,
    round_mode: str = "rint",
    dst_type: int = 296,
    scale_alg: int = 0,
    dst_type_max: float = 0.0,
) -> tuple[Tensor, Tensor, Tensor]:
    """npu_dynamic_mx_quant with one scale for 32 rows of 32 elements.

    input  float16 or bfloat16, of 2 to 7 dimensions

    Returns the elements, and the scales twice: as those of blocks along the last
    dimension, and along the last but one. RuntimeError: another shape, dtype or option.
    """
    name = "npu_dynamic_block_mx_quant"
    blocks = _blocks(input, name, dst_type, round_mode, scale_alg, dst_type_max)
    floats, size = blocks.element.floats, blocks.size
    assert floats is not None
    m, n = input.shape[-2:]
    wide = functional.pad(input.to(torch.float32), (0, -n % size, 0, -m % size))
    tiles = wide.unflatten(-1, (-1, size)).unflatten(-3, (-1, size))
    scales = blocks.choose(tiles.abs().amax((-1, -3)))
    of_rows = scales.repeat_interleave(size, -2)[..., :m, :]
    of_columns = scales.repeat_interleave(size, -1)[..., :n]
    inverse = scale_values((254 - of_rows).clamp(min=0))
    inverse = torch.where(of_rows == 255, torch.nan, inverse)
    factor = inverse.repeat_interleave(size, -1)[..., :n]
    codes = floats.encode(input.to(torch.float32) * factor, blocks.rounding)
    stored = blocks.element.store(codes)
    return stored, _pairs(of_rows), _pairs(of_columns.mT).movedim(-2, -3)


def _pairs(scales: Tensor) -> Tensor:
    """Scales (..., b) as bytes (..., ceil(b / 2), 2)."""
    filled = functional.pad(scales, (0, scales.shape[-1] % 2))
    return filled.unflatten(-1, (-1, 2)).to(torch.uint8)


def _blocks(
    input: Tensor, name: str, number: int, rounding: str, algorithm: int, largest: float
) -> MxBlocks:
    check_dtype(input, name, "input", (torch.float16, torch.bfloat16))
    fits = 2 <= input.dim() <= 7
    check(fits, name, f"input must have 2 to 7 dimensions, got {input.dim()}")
    blocks = mx_blocks(name, number, rounding, algorithm=algorithm, largest=largest)
    even = not blocks.element.is_packed or input.shape[-1] % 2 == 0
    check(even, name, f"the last dimension of input must be even: {input.shape[-1]}")
    return blocks


@npu_operator
def npu_anti_mx_quant(
    x: Tensor,
    mxscale: Tensor,
    *,
    axis: int | None = -1,
    dst_type: int | None = 15,
    src_type: int | None = 292,
) -> Tensor:
    """The numbers that npu_dynamic_mx_quant made of blocks of 32, times their scales.

    x         elements of src_type: float8_e4m3fn, float8_e5m2, float4_e2m1fn_x2 or
              float4_e1m2fn_x2; the latter two are bytes with two elements each
    mxscale   the scales: bytes, or float8_e8m0fnu
    axis      the dimension along which the blocks are
    dst_type  bfloat16, float16 or float32 of the result

    RuntimeError: another shape, dtype or option.
    """
    name = "npu_anti_mx_quant"
    results = (torch.bfloat16, torch.float16, torch.float32)
    kind = scalar_type(dst_type, name, "dst_type", results) or torch.bfloat16
    element = given_type(x, 292 if src_type is None else src_type, name, "x", MX_TYPES)
    values = element.load(x)
    place = -1 if axis is None else axis
    fits = -values.dim() <= place < values.dim()
    check(fits, name, f"axis must be one of {values.dim()} dimensions, got {axis}")
    rows = values.movedim(place, -1)
    bytes_of = (torch.uint8, torch.float8_e8m0fnu)
    check_dtype(mxscale, name, "mxscale", bytes_of)
    shape = [*values.shape, 2]
    shape[place % values.dim()] = -(-rows.shape[-1] // 64)
    check_shape(mxscale, name, "mxscale", tuple(shape))
    factor = scale_values(mxscale.movedim(place % values.dim(), -2).flatten(-2))
    spread = factor.repeat_interleave(32, -1)[..., : rows.shape[-1]]
    return (rows * spread).movedim(-1, place).to(kind)
