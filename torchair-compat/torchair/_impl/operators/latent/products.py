"""Products of rows and weights that may be int8, float8, float8 in MX blocks, or bytes of
hifloat8, and rows that become so. A tensor of uint8 holds hifloat8."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from ..element_types import ELEMENT_NUMBERS
from ..products.small_products import E8M0_BYTES
from ..quantisation.blocks import mx_blocks
from ..quantisation.integer_sums import integer_product, scale_sums
from ..quantisation.integers import to_int8
from ..quantisation.rows import row_scale
from ..quantisation.small_floats import HIFLOAT8, scale_values

MX_BLOCK = 32
_MX_TYPE = ELEMENT_NUMBERS["float8_e4m3fn"]
# hifloat8's is the HiF8_MAX of the page npu_dynamic_block_quant.
_LARGEST = {
    torch.int8: 127.0,
    torch.float8_e4m3fn: 448.0,
    torch.uint8: HIFLOAT8.largest,
}
FLOATS_OF_EIGHT = (torch.float8_e4m3fn, torch.uint8)


class Quantised(NamedTuple):
    """Rows (..., n), and the f32 scale of each, (...), or the float8_e8m0fnu codes of its
    blocks, (..., n / 32). None: the rows are floats."""

    values: Tensor
    scales: Tensor | None


def product(rows: Quantised, weight: Tensor, scale: Tensor | None) -> Tensor:
    """rows @ weight: floats in their dtype; quantised ones in f32, times the `scale` (1,
    n) of each column and the scale of each row, or times the scales (n, k / 32) of each
    column's blocks and those of the rows' blocks."""
    if scale is None or rows.scales is None:
        return rows.values @ weight
    if scale.dtype in E8M0_BYTES:
        left = _blocks_times(rows.values, rows.scales)
        return left @ _blocks_times(weight.t(), scale).t()
    if weight.dtype == torch.int8:
        total = integer_product(rows.values, weight)
    else:
        total = _values(rows.values) @ _values(weight)
    return scale_sums(total, scale, rows.scales, None)


def _values(few: Tensor) -> Tensor:
    """The f32 values of elements of eight bits."""
    return HIFLOAT8.decode(few) if few.dtype == torch.uint8 else few.to(torch.float32)


def _blocks_times(rows: Tensor, scales: Tensor) -> Tensor:
    """Rows (..., n) in f32, times the scales (..., n / 32) of their blocks."""
    factors = scale_values(scales).repeat_interleave(MX_BLOCK, -1)
    return rows.to(torch.float32) * factors


def mx_rows(values: Tensor) -> Quantised:
    """f32 rows as float8_e4m3fn in MX blocks, with their codes in uint8."""
    blocks = mx_blocks("npu_mla_prolog_v3", _MX_TYPE, "rint")
    codes, scales = blocks.codes(values)
    return Quantised(blocks.element.store(codes), scales.to(torch.uint8))


def quantised_rows(values: Tensor, kind: torch.dtype) -> Quantised:
    """f32 rows as elements of eight bits, by the largest of each."""
    if kind == torch.int8:
        return Quantised(*row_scale(values))
    scales = values.abs().amax(-1) / _LARGEST[kind]
    scales = torch.where(scales == 0, 1.0, scales)
    return Quantised(stored_as(values / scales.unsqueeze(-1), kind), scales)


def stored_as(values: Tensor, kind: torch.dtype) -> Tensor:
    """f32 values rounded to elements of eight bits, the largest for what is beyond it."""
    if kind == torch.int8:
        return to_int8(values)
    most = _LARGEST[kind]
    values = values.clamp(-most, most)
    if kind == torch.uint8:
        return HIFLOAT8.encode(values).to(kind)
    return values.to(kind)


def tiles(
    values: Tensor, kind: torch.dtype, size: int, alpha: Tensor | None
) -> Quantised:
    """f32 rows (..., n) as elements of eight bits, with a scale for each `size` elements, (...,
    n / size): the largest of them, times `alpha`, over that of the dtype."""
    parts = values.unflatten(-1, (-1, size))
    most = parts.abs().amax(-1)
    most = most if alpha is None else most * alpha
    scales = most / _LARGEST[kind]
    safe = torch.where(scales == 0, 1.0, scales)
    made = stored_as(parts / safe.unsqueeze(-1), kind)
    return Quantised(made.flatten(-2), scales)
