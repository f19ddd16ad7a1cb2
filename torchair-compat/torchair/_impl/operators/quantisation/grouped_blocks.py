"""Blocks of rows that begin anew with each group of rows.

After the reference of Ascend's kernels, page aclnnGroupedDynamicMxQuant, and Ascend's API
reference of torch_npu, page npu_grouped_dynamic_block_quant."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from ..checks import FLOATS, INTEGERS, check, check_dtype
from ..definition import npu_operator
from ..element_types import element_type
from .block_quant import check_block_options, largest_of_blocks
from .blocks import MxBlocks, mx_blocks
from .rows import unit_for_zero
from .small_floats import scale_values
from .stored import stored

_PAIR = 64


def check_ends(ends: Tensor, name: str, argument: str) -> None:
    check_dtype(ends, name, argument, INTEGERS)
    fits = ends.dim() == 1 and ends.shape[0] > 0
    text = f"{argument} must have one dimension and an element, got {tuple(ends.shape)}"
    check(fits, name, text)


def sizes_of_ends(ends: Tensor) -> Tensor:
    """The size of each group, from the end of each."""
    wide = ends.to(torch.int64)
    return wide - functional.pad(wide, (1, -1))


class _Places(NamedTuple):
    """Where rows are: the block of each, its place in the group, and whether a group has
    it. Rows of no group have block 0."""

    block: Tensor
    within: Tensor
    inside: Tensor


def _places(rows: int, sizes: Tensor, size: int) -> _Places:
    """Rows in blocks of `size`, of rows // size + groups blocks in all. Group g begins with
    block start // size + g."""
    wide = sizes.to(torch.int64)
    ends = wide.cumsum(0)
    number = torch.arange(rows, device=sizes.device)
    group = torch.bucketize(number, ends, right=True)
    inside = group < sizes.shape[0]
    group = group.clamp(max=sizes.shape[0] - 1)
    start = (ends - wide)[group]
    within = number - start
    block = start // size + group + within // size
    return _Places(torch.where(inside, block, 0), within, inside)


def grouped_columns(
    x: Tensor, sizes: Tensor, blocks: MxBlocks
) -> tuple[Tensor, Tensor]:
    """MX blocks of 32 rows of each group, from x (rows, n): the elements, and the scales
    (rows // 64 + groups, n, 2). Rows and scales of no group are 0."""
    floats = blocks.element.floats
    assert floats is not None
    rows, groups = x.shape[0], sizes.shape[0]
    pair, within, inside = _places(rows, sizes, _PAIR)
    place = torch.where(inside, pair * 2 + within % _PAIR // blocks.size, 0)
    inside = inside.unsqueeze(-1)
    wide = x.to(torch.float32)
    magnitude = torch.where(inside, wide.abs(), torch.zeros_like(wide))
    top = wide.new_zeros((rows // _PAIR + groups) * 2, x.shape[1])
    index = place.unsqueeze(-1).expand_as(magnitude)
    scales = blocks.choose(top.scatter_reduce(0, index, magnitude, "amax"))
    inverse = scale_values((254 - scales).clamp(min=0))[place]
    inverse = torch.where(scales[place] == 255, torch.nan, inverse)
    codes = floats.encode(wide * inverse, blocks.rounding)
    codes = torch.where(inside, codes, torch.zeros_like(codes))
    pairs = scales.to(torch.uint8).unflatten(0, (-1, 2)).movedim(1, -1)
    return blocks.element.store(codes), pairs


@npu_operator
def npu_grouped_dynamic_mx_quant(
    x: Tensor,
    group_index: Tensor,
    *,
    round_mode: str = "rint",
    dst_type: int = 23,
    blocksize: int = 32,
    scale_alg: int | None = 0,
    dst_type_max: float | None = 0.0,
) -> tuple[Tensor, Tensor]:
    """npu_dynamic_mx_quant in blocks of 32 rows that begin anew with each group.

    x            a float tensor (rows, n)
    group_index  (groups,): the ends of the groups, up to the last row
    blocksize    32

    Returns the elements, and scales (rows // 64 + groups, n, 2): those of group g are from
    place start // 64 + g on. RuntimeError: another shape, dtype or option.
    """
    name = "npu_grouped_dynamic_mx_quant"
    check_dtype(x, name, "x")
    check(x.dim() == 2, name, f"x must have 2 dimensions, got {x.dim()}")
    check(blocksize == 32, name, f"blocksize must be 32, got {blocksize}")
    check_ends(group_index, name, "group_index")
    largest = dst_type_max or 0.0
    blocks = mx_blocks(name, dst_type, round_mode, algorithm=scale_alg, largest=largest)
    even = not blocks.element.is_packed or x.shape[1] % 2 == 0
    check(even, name, f"the last dimension of x must be even, got {x.shape[1]}")
    return grouped_columns(x, sizes_of_ends(group_index), blocks)


@npu_operator
def npu_grouped_dynamic_block_quant(
    x: Tensor,
    group_list: Tensor,
    *,
    min_scale: float = 0.0,
    round_mode: str = "rint",
    dst_type: int = 291,
    row_block_size: int = 1,
    col_block_size: int = 128,
    group_list_type: int = 0,
    dst_type_max: float = 0.0,
) -> tuple[Tensor, Tensor]:
    """npu_dynamic_block_quant whose blocks of rows begin anew with each group.

    x                a float tensor (m, n) or (b, m, n)
    group_list       (groups,): the ends of the groups, up to m
    dst_type         float8_e4m3fn, float8_e5m2, or hifloat8 in uint8
    group_list_type  0

    Returns the elements, and f32 scales (..., m // row_block_size + groups,
    ceil(n / col_block_size)): those of group g are from place start // row_block_size + g
    on, others are 0. RuntimeError: another shape, dtype or option.
    """
    name = "npu_grouped_dynamic_block_quant"
    check_dtype(x, name, "x", FLOATS)
    check(x.dim() in (2, 3), name, f"x must have 2 or 3 dimensions, got {x.dim()}")
    check(group_list_type == 0, name, f"group_list_type must be 0: {group_list_type}")
    check_ends(group_list, name, "group_list")
    known = ("float8_e4m3fn", "float8_e5m2", "hifloat8")
    element = element_type(dst_type, name, "dst_type", known)
    sizes = (row_block_size, col_block_size)
    check_block_options(element, round_mode, min_scale, sizes, dst_type_max, name)
    m, n = x.shape[-2:]
    place, _, inside = _places(m, sizes_of_ends(group_list), row_block_size)
    wide = torch.where(inside.unsqueeze(-1), x.to(torch.float32), 0.0)
    parts = functional.pad(wide, (0, -n % col_block_size))
    tops = parts.unflatten(-1, (-1, col_block_size)).abs().amax(-1)
    count = m // row_block_size + group_list.shape[0]
    top = tops.new_zeros(*tops.shape[:-2], count, tops.shape[-1])
    index = place.unsqueeze(-1).expand_as(tops)
    top = top.scatter_reduce(-2, index, tops, "amax")
    scale = largest_of_blocks(top, element, min_scale, dst_type_max)
    divisor = unit_for_zero(scale)[..., place, :].repeat_interleave(col_block_size, -1)
    return stored(wide / divisor[..., :n], element), scale
