"""A gate, and what it makes quantised: blocks of rows to float8, groups of rows to
hifloat8.

After the reference of Ascend's kernels, page aclnnSwigluGroupQuant."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from ..checks import FLOATS, check, check_dtype, check_shape
from ..definition import npu_operator
from ..element_types import ELEMENT_NUMBERS, element_type
from ..quantisation.blocks import mx_blocks
from ..quantisation.rows import group_of_rows
from ..quantisation.small_floats import power_above
from ..quantisation.stored import largest_of, stored
from .swiglu import halves

_NAME = "npu_swiglu_group_quant"
_HALF = (torch.float16, torch.bfloat16)
_FLOAT8 = ("float8_e4m3fn", "float8_e5m2")
_HIFLOAT8 = element_type(ELEMENT_NUMBERS["hifloat8"], _NAME, "dst_type", ("hifloat8",))
_BLOCKS = {0: 128, 1: 32}  # elements, by quant_mode
_LEAST = 1e-4  # the least magnitude that counts, of a block
_LEAST_OF_GROUP = 1e-8


@npu_operator
def npu_swiglu_group_quant(
    x: Tensor,
    *,
    weight: Tensor | None = None,
    group_index: Tensor | None = None,
    scale: Tensor | None = None,
    dst_type: int = 291,
    quant_mode: int = 0,
    block_size: int = 0,
    round_scale: bool = False,
    clamp_limit: float = -1.0,
    dst_type_max: float = 15.0,
    output_origin: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:
    """silu of the first half of each row times the second half, times `weight`, and
    quantised; computed in f32.

    x            (..., 2 n) of 2 to 8 dimensions: float16, bfloat16, and for quant_mode 2
                 and 3 float32
    weight       float32, a number for each row
    group_index  (groups,) int64: the sizes of groups of rows; rows of no group are 0
    quant_mode   0: float8 in blocks of 128, each by its largest finite magnitude, at least
                 1e-4, over the type's largest number, with `round_scale` rounded up to a
                 power of two. 1: float8 in MX blocks of 32 by such scales, for which
                 round_scale must be True. 2: hifloat8 of rows times `scale`, float32
                 (groups,), or (1,) without groups. 3: hifloat8 of each group, or of all
                 rows, by its largest magnitude, at least 1e-8, over `dst_type_max`
    dst_type     float8_e4m3fn or float8_e5m2, for quant_mode 0 and 1
    block_size   0, or the size that quant_mode has
    clamp_limit  the first half is at most it, the second from -clamp_limit to it; -1:
                 neither

    Returns the elements (..., n), those of hifloat8 in uint8; the scales: float32 (..., n /
    128), uint8 (..., n / 64, 2) with sizes rounded up, float32 (0,), or float32 (groups,)
    or (1,); and with `output_origin` the gate before `weight`, in x's dtype, else an empty
    tensor. RuntimeError: another shape, dtype or option.
    """
    _check_options(x, quant_mode, block_size, round_scale, clamp_limit)
    rows = tuple(x.shape[:-1])
    origin = _gated(x, clamp_limit)
    made = origin
    if weight is not None:
        check_dtype(weight, _NAME, "weight", (torch.float32,))
        fits = weight.numel() == made.numel() // made.shape[-1]
        text = f"weight must have a number for each row of {rows}"
        check(fits, _NAME, f"{text}, got {tuple(weight.shape)}")
        made = made * weight.reshape(*rows, 1)
    group: Tensor | None = None
    if group_index is not None:
        group = _groups(rows, group_index)
        inside = (group < group_index.shape[0]).unsqueeze(-1)
        made, origin = (torch.where(inside, t, 0.0) for t in (made, origin))
    kept = origin.to(x.dtype) if output_origin else x.new_empty(0)
    if quant_mode == 2:
        values = _by_given(made, group, group_index, scale)
        return values, x.new_empty(0, dtype=torch.float32), kept
    if quant_mode == 3:
        check(dst_type_max > 0, _NAME, f"dst_type_max must be positive: {dst_type_max}")
        return *_by_groups(made, group, group_index, dst_type_max), kept
    values, scales = _by_blocks(made, dst_type, quant_mode, round_scale)
    if group is not None and group_index is not None:
        inside = (group < group_index.shape[0]).reshape(*rows, *(1,) * (1 + quant_mode))
        scales = torch.where(inside, scales, torch.zeros_like(scales))
    return values, scales, kept


def _check_options(
    x: Tensor, mode: int, block_size: int, round_scale: bool, limit: float
) -> None:
    check(mode in (0, 1, 2, 3), _NAME, f"quant_mode must be 0 to 3, got {mode}")
    check_dtype(x, _NAME, "x", _HALF if mode in _BLOCKS else FLOATS)
    most = 7 if mode == 1 else 8
    text = f"x must have 2 to {most} dimensions, got {x.dim()}"
    check(2 <= x.dim() <= most, _NAME, text)
    even = x.shape[-1] > 0 and x.shape[-1] % 2 == 0
    check(even, _NAME, f"the last dimension of x must be even, got {x.shape[-1]}")
    size = _BLOCKS.get(mode)
    fits = size is None or block_size in (0, size)
    check(fits, _NAME, f"block_size must be 0 or {size}, got {block_size}")
    check(mode != 1 or round_scale, _NAME, "quant_mode 1 needs round_scale")
    fits = limit == -1 or limit > 0
    check(fits, _NAME, f"clamp_limit must be -1 or positive, got {limit}")


def _gated(x: Tensor, limit: float) -> Tensor:
    gate, linear = halves(x.to(torch.float32))
    if limit > 0:
        gate, linear = gate.clamp(max=limit), linear.clamp(-limit, limit)
    return functional.silu(gate) * linear


def _groups(rows: tuple[int, ...], sizes: Tensor) -> Tensor:
    """The group of each row. Rows of no group have the number of groups."""
    check_dtype(sizes, _NAME, "group_index", (torch.int64,))
    fits = sizes.dim() == 1 and sizes.shape[0] > 0
    text = f"group_index must have one dimension and an element: {tuple(sizes.shape)}"
    check(fits, _NAME, text)
    count = 1
    for size in rows:
        count = count * size
    return group_of_rows(sizes.cumsum(0), count).reshape(rows)


def _by_given(
    made: Tensor, group: Tensor | None, sizes: Tensor | None, scale: Tensor | None
) -> Tensor:
    check(scale is not None, _NAME, "quant_mode 2 needs scale")
    assert scale is not None
    check_dtype(scale, _NAME, "scale", (torch.float32,))
    groups = 1 if sizes is None else sizes.shape[0]
    check_shape(scale, _NAME, "scale", (groups,))
    return stored(made * _of_rows(scale, group), _HIFLOAT8)


def _by_groups(
    made: Tensor, group: Tensor | None, sizes: Tensor | None, largest: float
) -> tuple[Tensor, Tensor]:
    magnitude = made.abs().amax(-1)
    if group is None or sizes is None:
        top = magnitude.amax().reshape(1)
    else:
        # The last place takes the rows of no group.
        places = made.new_zeros(sizes.shape[0] + 1)
        places = places.scatter_reduce(0, group.flatten(), magnitude.flatten(), "amax")
        top = places[:-1]
    scale = top.clamp(min=_LEAST_OF_GROUP) / largest
    return stored(made / _of_rows(scale, group), _HIFLOAT8), scale


def _of_rows(scale: Tensor, group: Tensor | None) -> Tensor:
    """The scale of each row's group, (..., 1)."""
    if group is None:
        return scale
    return scale[group.clamp(max=scale.shape[0] - 1)].unsqueeze(-1)


def _by_blocks(
    made: Tensor, dst_type: int, mode: int, round_scale: bool
) -> tuple[Tensor, Tensor]:
    element = element_type(dst_type, _NAME, "dst_type", _FLOAT8)
    if mode == 1:
        blocks = mx_blocks(_NAME, dst_type, "rint", algorithm=1, floor=_LEAST)
        return blocks.quantise(made)
    width, largest = made.shape[-1], largest_of(element)
    filled = functional.pad(made, (0, -width % _BLOCKS[0]))
    parts = filled.unflatten(-1, (-1, _BLOCKS[0]))
    finite = torch.where(parts.isfinite(), parts.abs(), 0.0)
    top = finite.amax(-1).clamp(min=_LEAST)
    scale = top / largest
    if round_scale:
        scale = power_above(scale)
        inverse = 1 / scale
    else:
        inverse = largest / top
    values = parts * inverse.unsqueeze(-1)
    values = torch.where(values.isfinite(), values, parts)
    return stored(values.flatten(-2)[..., :width], element), scale
