"""Operators that quantise to MX formats, one scale for a block of elements.

After the reference of Ascend's kernels, pages aclnnDynamicMxQuantV3 and
aclnnDynamicDualLevelMxQuant, and Ascend's API reference of torch_npu."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from ..checks import FLOATS, check, check_dtype
from ..definition import npu_operator
from ..element_types import ELEMENT_NUMBERS
from .blocks import mx_blocks

_E2M1 = ELEMENT_NUMBERS["float4_e2m1fn_x2"]


@npu_operator
def npu_dynamic_mx_quant(
    input: Tensor,
    *,
    axis: int = -1,
    round_mode: str = "rint",
    dst_type: int = 296,
    block_size: int = 32,
    scale_alg: int | None = 0,
    dst_type_max: float = 0.0,
    max_low_bound: float = 0.0,
) -> tuple[Tensor, Tensor]:
    """Quantises blocks of elements along `axis`, each by a scale that is a power of two.

    input       a float tensor of 1 to 7 dimensions; f32 needs block_size 32
    dst_type    float8_e4m3fn, float8_e5m2, float4_e2m1fn_x2 or float4_e1m2fn_x2, of which
                the latter two are two to a byte of uint8, the first in the lower bits
    round_mode  rint; floor and round (halves away from zero) for types of four bits
    block_size  a multiple of 32 up to 1024
    scale_alg   0: 2^(floor(log2(largest magnitude)) - exponent of the type's largest
                number). 1, for types of eight bits: the largest magnitude (at least
                max_low_bound) over the type's largest number, rounded up to a power of
                two. 2, for float4_e2m1fn_x2: the same by dst_type_max, from 6 to 12

    Numbers beyond the type's largest become it. A block with an infinity or a NaN has the
    scale NaN. Returns the elements, and the scales as bytes of float8_e8m0fnu: uint8 of
    the input's shape with ceil(blocks / 2) along the axis, and 2 as a new last dimension.
    RuntimeError: another shape, dtype or option.
    """
    name = "npu_dynamic_mx_quant"
    check_dtype(input, name, "input", FLOATS)
    check(
        1 <= input.dim() <= 7, name, f"input must have 1 to 7 dimensions: {input.dim()}"
    )
    fits = -input.dim() <= axis < input.dim()
    check(fits, name, f"axis must be one of {input.dim()} dimensions, got {axis}")
    blocks = mx_blocks(
        name,
        dst_type,
        round_mode,
        size=block_size,
        algorithm=scale_alg,
        largest=dst_type_max,
        floor=max_low_bound,
    )
    wide = input.dtype == torch.float32
    check(not wide or block_size == 32, name, "input of float32 needs block_size 32")
    if blocks.element.is_packed:
        _check_even(input, name)
    return blocks.quantise(input, axis)


def _check_even(input: Tensor, name: str) -> None:
    """RuntimeError unless the last dimension is even, as pairs of four bits need."""
    size = input.shape[-1]
    check(size % 2 == 0, name, f"the last dimension of input must be even, got {size}")


@npu_operator
def npu_dynamic_dual_level_mx_quant(
    input: Tensor, *, smooth_scale: Tensor | None = None, round_mode: str = "rint"
) -> tuple[Tensor, Tensor, Tensor]:
    """Quantises each row to float4_e2m1fn_x2 by two scales: an f32 for 512 elements, their
    largest magnitude over 6, and a power of two for 32 of the quotients.

    input         float16 or bfloat16, of 1 to 7 dimensions, the last even
    smooth_scale  must be None
    round_mode    rint, floor or round

    Quotients by the first scale are rounded to the input's dtype. Returns two elements to
    a byte; the first scales (..., ceil(n / 512)); and the second as bytes of
    float8_e8m0fnu (..., ceil(n / 64), 2). RuntimeError: another shape, dtype or option.
    """
    name = "npu_dynamic_dual_level_mx_quant"
    check_dtype(input, name, "input", (torch.float16, torch.bfloat16))
    check(
        1 <= input.dim() <= 7, name, f"input must have 1 to 7 dimensions: {input.dim()}"
    )
    _check_even(input, name)
    check(smooth_scale is None, name, "smooth_scale must be None")
    blocks = mx_blocks(name, _E2M1, round_mode)
    width = input.shape[-1]
    filled = functional.pad(input.to(torch.float32), (0, -width % 512))
    parts = filled.unflatten(-1, (-1, 512))
    first = parts.abs().amax(-1) / 6.0
    divisor = torch.where(first == 0, torch.ones_like(first), first)
    quotients = (parts / divisor.unsqueeze(-1)).flatten(-2)[..., :width]
    stored, second = blocks.quantise(quotients.to(input.dtype))
    return stored, first, second
