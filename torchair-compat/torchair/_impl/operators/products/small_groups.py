"""Operands of npu_grouped_matmul that are floats of eight or four bits, as f32.

After the reference of Ascend's kernels, page aclnnGroupedMatmulV5."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import torch
from torch import Tensor

from ..checks import check, check_dtype, check_shape
from ..element_types import given_type, number_of
from ..quantisation.integer_sums import decode_scale
from ..quantisation.small_floats import scale_values
from .group_products import NAME
from .small_products import (
    E8M0_BYTES,
    SMALL_TYPES,
    columns_as_rows,
    is_small,
    unpack_floats,
)

__all__ = ["are_small", "widened"]

_Scales: TypeAlias = Sequence[Tensor] | None
_Number: TypeAlias = torch.dtype | int | None


def are_small(tensors: Sequence[Tensor], dtype: _Number) -> bool:
    return any(is_small(one, number_of(dtype)) for one in tensors)


def widened(
    x: Sequence[Tensor],
    weight: Sequence[Tensor],
    scale: _Scales,
    antiquant_scale: _Scales,
    per_token_scale: _Scales,
    x_dtype: _Number,
    weight_dtype: _Number,
    scale_dtype: _Number,
    per_token_scale_dtype: _Number,
) -> tuple[list[Tensor], list[Tensor]]:
    """x and the weights in f32, times their scales. A scale of float8_e8m0fnu belongs to 32
    elements along k: (..., ceil(k / 64), 2), or (..., k / 32), of rows of x; the same with
    n before or after, of weights. Other scales are (m,), f32, and (n,) for each group, f32,
    bf16, or int64 of npu_trans_quant_param. f32 weights are eight float4_e2m1 each."""
    check(
        not (scale and antiquant_scale),
        NAME,
        "scale and antiquant_scale exclude each other",
    )
    x_scales = _listed("per_token_scale", per_token_scale, len(x))
    w_scales = _listed("scale", scale or antiquant_scale, len(weight))
    for what, number in (
        ("scale_dtype", scale_dtype),
        ("per_token_scale_dtype", per_token_scale_dtype),
    ):
        known = number_of(number) in (None, 6, 44, 293)
        check(known, NAME, f"{what} must be float8_e8m0fnu or float32, got {number}")
    rows = [
        _rows(one, given, number_of(x_dtype), "x", "per_token_scale")
        for one, given in zip(x, x_scales)
    ]
    widths = [one.shape[-1] for one in rows]
    columns = [
        _weights(one, given, number_of(weight_dtype), widths[min(i, len(x) - 1)])
        for i, (one, given) in enumerate(zip(weight, w_scales))
    ]
    return rows, columns


def _listed(what: str, scales: _Scales, count: int) -> list[Tensor | None]:
    if not scales:
        return [None] * count
    check(
        len(scales) == count, NAME, f"{what} must have {count} parts, got {len(scales)}"
    )
    return list(scales)


def _rows(
    x: Tensor, scale: Tensor | None, number: int | None, what: str, scale_name: str
) -> Tensor:
    if not is_small(x, number):
        values = x.to(torch.float32)
    else:
        values = given_type(x, number, NAME, what, SMALL_TYPES).load(x)
    if scale is None:
        return values
    if scale.dtype in E8M0_BYTES:
        return values * _factors(scale, values, scale_name)
    check_dtype(scale, NAME, scale_name, (torch.float32,))
    check_shape(scale, NAME, scale_name, tuple(values.shape[:-1]))
    return values * scale.unsqueeze(-1)


def _weights(
    weight: Tensor, scale: Tensor | None, number: int | None, k: int
) -> Tensor:
    """(..., k, n) in f32."""
    check(weight.dim() in (2, 3), NAME, "each weight must have 2 or 3 dimensions")
    values = _as_rows(weight, number, k)
    if scale is None:
        return values.transpose(-1, -2)
    if scale.dtype in E8M0_BYTES:
        along = -3 if scale.dim() == weight.dim() + 1 else -1
        factors = _factors(scale.transpose(-2, along), values, "scale")
        return (values * factors).transpose(-1, -2)
    return (values * _of_columns(scale, values)).transpose(-1, -2)


def _as_rows(weight: Tensor, number: int | None, k: int) -> Tensor:
    """A weight (..., k, n) as f32 (..., n, k)."""
    if weight.dtype == torch.float32 and number is None:
        # A transposed view of a packed matrix is packed along k.
        if weight.shape[-2] * 8 == k:
            return unpack_floats(weight.transpose(-1, -2))
        return unpack_floats(weight).transpose(-1, -2)
    element = given_type(weight, number, NAME, "weight", SMALL_TYPES)
    rows, element = columns_as_rows(weight, element)
    return element.load(rows)


def _of_columns(scale: Tensor, values: Tensor) -> Tensor:
    """The factor of each row of values (..., n, k)."""
    check_dtype(scale, NAME, "scale", (torch.float32, torch.bfloat16, torch.int64))
    check_shape(scale, NAME, "scale", tuple(values.shape[:-1]))
    wide = decode_scale(scale)[0] if scale.dtype == torch.int64 else scale
    return wide.to(torch.float32).unsqueeze(-1)


def _factors(scale: Tensor, values: Tensor, what: str) -> Tensor:
    """The factor of each element of rows (..., k)."""
    width = values.shape[-1]
    before = tuple(values.shape[:-1])
    pairs = (*before, -(-width // 64), 2)
    check_shape(scale, NAME, what, pairs, (*before, -(-width // 32)))
    codes = scale.flatten(-2) if scale.dim() == values.dim() + 1 else scale
    return scale_values(codes).repeat_interleave(32, -1)[..., :width]
