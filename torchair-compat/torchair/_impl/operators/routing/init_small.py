"""How npu_moe_init_routing_v2 quantises rows to floats of eight and four bits.

After the reference of Ascend's kernels, page aclnnMoeInitRoutingV3, and, where that has no
formula, the reference in the operator's tests."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from ..checks import check, check_shape
from ..element_types import ELEMENT_NUMBERS, element_type
from ..quantisation.blocks import mx_blocks
from ..quantisation.rows import unit_for_zero
from ..quantisation.small_floats import power_above
from ..quantisation.stored import largest_of, stored

__all__ = ["SMALL_MODES", "small_rows"]

_NAME = "npu_moe_init_routing_v2"
_E5M2, _E4M3, _HIFLOAT8, _E2M1 = (
    element_type(ELEMENT_NUMBERS[name], _NAME, "quant_mode", (name,))
    for name in ("float8_e5m2", "float8_e4m3fn", "hifloat8", "float4_e2m1fn_x2")
)
_LEAST = 1e-4  # of a block's largest magnitude, for modes that have a least one
_BLOCK = 128
# What elements are, by quant_mode.
_MX = {2: _E5M2, 3: _E4M3, 16: _E5M2, 17: _E4M3}
_MX4 = 9
_CAST, _BY_TENSOR, _BY_ROW = 6, 7, 8  # to hifloat8
_PAIRED = {11: _E5M2, 12: _E4M3}
_POWERS = {4: _E5M2, 5: _E4M3, 14: _E5M2, 15: _E4M3}
_WITH_LEAST = (14, 15, 16, 17)
SMALL_MODES = (*_MX, _MX4, _CAST, _BY_TENSOR, _BY_ROW, *_PAIRED, *_POWERS)


def small_rows(
    x: Tensor, wide: Tensor, filled: Tensor, mode: int, scale: Tensor | None
) -> tuple[Tensor, Tensor]:
    """The rows of the result, from `wide`, those of x in f32, and their scales: zeros where
    no row is `filled`."""
    if mode == _BY_TENSOR:
        check(scale is not None, _NAME, "quant_mode 7 needs scale")
        check_shape(scale, _NAME, "scale", (1,))
    if mode in (_CAST, _BY_TENSOR):
        values = wide if scale is None or mode == _CAST else wide * scale
        most = largest_of(_HIFLOAT8)
        values = values.clamp(-most, most) if mode == _BY_TENSOR else values
        return stored(values, _HIFLOAT8), wide.new_zeros(wide.shape[0])
    if mode == _BY_ROW:
        factor = wide.abs().amax(-1) / largest_of(_HIFLOAT8)
        values = wide / unit_for_zero(factor).unsqueeze(-1)
        return stored(values, _HIFLOAT8), factor
    if mode == _MX4:
        even = x.shape[1] % 2 == 0
        check(even, _NAME, f"quant_mode 9 needs rows of an even size, got {x.shape[1]}")
        blocks = mx_blocks(_NAME, ELEMENT_NUMBERS[_E2M1.name], "rint")
        return blocks.quantise(wide)
    if mode in _MX:
        values, scales = _mx(wide, x.dtype, mode)
        scales = torch.where(filled.unsqueeze(-1), scales, torch.zeros_like(scales))
        return values, scales.view(torch.float8_e8m0fnu)
    values, scales = _by_blocks(wide, mode)
    return values, torch.where(
        filled.reshape(-1, *(1,) * (scales.dim() - 1)), scales, 0.0
    )


def _mx(wide: Tensor, dtype: torch.dtype, mode: int) -> tuple[Tensor, Tensor]:
    """MX blocks by scales that are rounded up. The largest magnitude of a block of float16
    counts in bfloat16, rounded towards zero."""
    blocks = mx_blocks(
        _NAME,
        ELEMENT_NUMBERS[_MX[mode].name],
        "rint",
        algorithm=1,
        floor=_LEAST if mode in _WITH_LEAST else 0.0,
    )
    seen = _towards_zero(wide) if dtype == torch.float16 else None
    values, pairs = blocks.quantise(wide, seen=seen)
    return values, pairs.flatten(-2)


def _towards_zero(values: Tensor) -> Tensor:
    """f32 numbers rounded to bfloat16 towards zero."""
    return (values.view(torch.int32) & -65536).view(torch.float32)


def _by_blocks(wide: Tensor, mode: int) -> tuple[Tensor, Tensor]:
    """Blocks of 128: by a quotient, whose scales come in pairs; or by a power of two."""
    element = {**_PAIRED, **_POWERS}[mode]
    width, most = wide.shape[-1], largest_of(element)
    parts = functional.pad(wide, (0, -width % _BLOCK)).unflatten(-1, (-1, _BLOCK))
    top = parts.abs().amax(-1)
    scale = (top.clamp(min=_LEAST) if mode in _WITH_LEAST else top) / most
    if mode in _PAIRED:
        scale = torch.where(scale < torch.finfo(torch.float32).tiny, 0.0, scale)
    else:
        scale = torch.where(scale == 0, scale, power_above(scale))
    values = (parts / unit_for_zero(scale).unsqueeze(-1)).clamp(-most, most)
    made = stored(values.flatten(-2)[..., :width], element)
    if mode in _PAIRED:
        scale = functional.pad(scale, (0, scale.shape[-1] % 2)).unflatten(-1, (-1, 2))
    return made, scale
