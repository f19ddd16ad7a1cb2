"""Products of torch_npu with weights of few bits, or with transposed operands."""

from __future__ import annotations

import torch
from torch import Tensor

from ..checks import FLOATS, check, check_dtype, check_shape, reads_values
from ..definition import npu_operator
from ..element_types import given_type
from ..quantisation.integer_sums import decode_scale
from ..quantisation.integers import pack_int4, to_int8, unpack_int4
from ..quantisation.small_floats import E2M1, scale_values
from .small_products import E8M0_BYTES, is_small, unpack_floats

_NIBBLES = 8
_SMALL = ("hifloat8", "float8_e4m3fn", "float8_e5m2")


@npu_operator
def npu_convert_weight_to_int4pack(weight: Tensor, inner_k_tiles: int = 0) -> Tensor:
    """Packs int32 (..., n) of values from -8 to 7 into int32 (..., n / 8), the first
    value in the lowest four bits; and f32 of values that float4_e2m1 has into f32 whose
    bits have eight of them. RuntimeError: another shape, dtype or value."""
    name = "npu_convert_weight_to_int4pack"
    check_dtype(weight, name, "weight", (torch.int32, torch.float32))
    check(weight.dim() >= 1, name, "weight must have a dimension")
    size = weight.shape[-1]
    check(
        size % _NIBBLES == 0,
        name,
        f"the last dimension of weight must be a multiple of 8, got {size}",
    )
    if weight.dtype == torch.int32:
        return pack_int4(weight)
    codes = E2M1.encode(weight)
    if reads_values(weight):
        kept = bool((E2M1.decode(codes) == weight).all())
        check(kept, name, "weight has values that float4_e2m1 does not have")
    return pack_int4(codes).view(torch.float32)


@npu_operator
def npu_weight_quant_batchmatmul(
    x: Tensor,
    weight: Tensor,
    antiquant_scale: Tensor,
    antiquant_offset: Tensor | None = None,
    quant_scale: Tensor | None = None,
    quant_offset: Tensor | None = None,
    bias: Tensor | None = None,
    antiquant_group_size: int = 0,
    inner_precise: int = 0,
    weight_dtype: int | None = None,
) -> Tensor:
    """x @ w + bias with w = (weight + offset) * scale, computed in f32.

    x       (m, k) float
    weight  (k, n): int8; int32 with eight int4 each, or f32 with eight float4_e2m1, as
            npu_convert_weight_to_int4pack makes them; float8_e4m3fn, float8_e5m2, or
            with `weight_dtype` bytes of hifloat8
    antiquant_scale, antiquant_offset  one element, one for each column, or one for each
            `antiquant_group_size` rows of a column. A scale of float4 may be bytes of
            float8_e8m0fnu, for groups of 32. One of int8 for x of float16 may be int64
            of npu_trans_quant_param, with an int32 offset
    quant_scale  f32, or int64 of npu_trans_quant_param, which may have the offset

    The result has x's dtype, or is int8 with `quant_scale`. RuntimeError: another shape
    or dtype.
    """
    name = "npu_weight_quant_batchmatmul"
    check_dtype(x, name, "x", FLOATS)
    check(x.dim() == 2 and weight.dim() == 2, name, "x and weight must be matrices")
    values = _loaded(x, weight, weight_dtype)
    check(
        x.shape[-1] == values.shape[0],
        name,
        f"x has {x.shape[-1]} columns and weight {values.shape[0]} rows",
    )
    columns = values.shape[-1]
    for what, vector in (("quant_scale", quant_scale), ("quant_offset", quant_offset)):
        check_shape(vector, name, what, (), (1,), (columns,), (1, columns))
    check_shape(bias, name, "bias", (columns,), (1, columns))
    check(
        antiquant_group_size >= 0,
        name,
        f"antiquant_group_size must not be negative, got {antiquant_group_size}",
    )
    scale = _decoded(x, weight, antiquant_scale, antiquant_offset, antiquant_group_size)
    wide = values.to(torch.float32)
    for what, table in (("offset", antiquant_offset), ("scale", scale)):
        if table is None:
            continue
        rows = _of_rows(table.to(torch.float32), values, antiquant_group_size, what)
        wide = wide + rows if what == "offset" else wide * rows
    result = x.to(torch.float32) @ wide
    if bias is not None:
        result = result + bias.to(torch.float32)
    if quant_scale is None:
        check(quant_offset is None, name, "quant_offset needs quant_scale")
        return result.to(x.dtype)
    return _quantised(result, quant_scale, quant_offset)


def _loaded(x: Tensor, weight: Tensor, number: int | None) -> Tensor:
    """The elements of the weight (k, n), as int8 or f32."""
    name = "npu_weight_quant_batchmatmul"
    if is_small(weight, number):
        return given_type(weight, number, name, "weight", _SMALL).load(weight)
    kinds = (torch.int8, torch.int32, torch.float32)
    check_dtype(weight, name, "weight", kinds)
    if weight.dtype == torch.int8:
        return weight
    unpack = unpack_int4 if weight.dtype == torch.int32 else unpack_floats
    # A transposed view of a packed matrix is packed along k.
    packed_rows = weight.shape[0] * _NIBBLES == x.shape[-1]
    return unpack(weight.t()).t() if packed_rows else unpack(weight)


def _decoded(
    x: Tensor, weight: Tensor, scale: Tensor, offset: Tensor | None, group: int
) -> Tensor:
    """antiquant_scale in floats."""
    name = "npu_weight_quant_batchmatmul"
    if scale.dtype in E8M0_BYTES:
        text = "antiquant_scale of float8_e8m0fnu is for weights of float4, in groups of 32"
        fits = weight.dtype == torch.float32 and group == 32 and offset is None
        check(fits, name, f"{text}, without antiquant_offset")
        return scale_values(scale)
    if scale.dtype == torch.int64:
        fits = x.dtype == torch.float16 and weight.dtype == torch.int8 and group == 0
        text = "antiquant_scale of int64 is for x of float16 and weights of int8"
        check(fits, name, f"{text}, without groups")
        check_dtype(offset, name, "antiquant_offset", (torch.int32,))
        return decode_scale(scale)[0]
    check_dtype(scale, name, "antiquant_scale", (*FLOATS, torch.int64, *E8M0_BYTES))
    check_dtype(offset, name, "antiquant_offset", FLOATS)
    return scale


def _quantised(result: Tensor, scale: Tensor, offset: Tensor | None) -> Tensor:
    """The f32 result in int8."""
    name = "npu_weight_quant_batchmatmul"
    check_dtype(scale, name, "quant_scale", (torch.float32, torch.int64))
    check_dtype(offset, name, "quant_offset", (torch.float32,))
    if scale.dtype == torch.int64:
        scale, shift = decode_scale(scale)
        offset = shift if offset is None else offset
    result = result * scale
    return to_int8(result if offset is None else result + offset)


def _of_rows(table: Tensor, weight: Tensor, group: int, what: str) -> Tensor:
    """The scale or offset of each element of the weight."""
    name = "npu_weight_quant_batchmatmul"
    rows, columns = weight.shape
    if group == 0:
        check(
            table.numel() in (1, columns),
            name,
            f"antiquant_{what} must have 1 or {columns} elements",
        )
        return table.reshape(-1)
    groups = -(-rows // group) if group > 0 else 0
    check(
        tuple(table.shape) == (groups, columns),
        name,
        f"antiquant_{what} must have shape ({groups}, {columns}) for groups of {group}"
        f" rows, got {tuple(table.shape)}",
    )
    return table.repeat_interleave(group, 0)[:rows]


@npu_operator
def npu_transpose_batchmatmul(
    input: Tensor,
    weight: Tensor,
    *,
    bias: Tensor | None = None,
    scale: Tensor | None = None,
    perm_x1: list[int] | None = None,
    perm_x2: list[int] | None = None,
    perm_y: list[int] | None = None,
    batch_split_factor: int | None = 1,
) -> Tensor:
    """The batched product of the operands in the orders `perm_x1` and `perm_x2`, in the
    order `perm_y`; by default (m, batch, n).

    scale               (batch * n,) int64 or uint64 of npu_trans_quant_param: the result
                        times it plus its offset, as int8 (m, 1, batch * n)
    batch_split_factor  b: the result is (b, m, batch * n / b); 1 beside scale

    RuntimeError: another shape, dtype or order.
    """
    name = "npu_transpose_batchmatmul"
    check(bias is None, name, "bias must be None")
    check(
        input.dim() == 3 and weight.dim() == 3,
        name,
        "input and weight must have three dimensions",
    )
    orders = (perm_x1 or [0, 1, 2], perm_x2 or [0, 1, 2], perm_y or [1, 0, 2])
    for what, order in zip(("perm_x1", "perm_x2", "perm_y"), orders):
        check(sorted(order) == [0, 1, 2], name, f"{what} is no order: {list(order)}")
    check(
        input.dtype == weight.dtype,
        name,
        f"input and weight must have one dtype, got {input.dtype} and {weight.dtype}",
    )
    batch, _, inner = (input.shape[dim] for dim in orders[0])
    found = tuple(weight.shape[dim] for dim in orders[1])
    check(
        found[:2] == (batch, inner),
        name,
        f"weight must be ({batch}, {inner}, n) in the order of perm_x2, got {found}",
    )
    product = torch.bmm(input.permute(orders[0]), weight.permute(orders[1]))
    result = product.permute(orders[2]).contiguous()
    split = batch_split_factor or 1
    if scale is not None:
        check(split == 1, name, f"batch_split_factor must be 1 beside scale: {split}")
        return _as_int8(result, scale, list(orders[2]))
    if split == 1:
        return result
    check(
        split > 0 and batch % split == 0,
        name,
        f"batch_split_factor {split} does not divide the batch, {batch}",
    )
    parts = result.unflatten(1, (split, batch // split))
    return parts.permute(1, 0, 2, 3).flatten(2).contiguous()


def _as_int8(result: Tensor, scale: Tensor, order: list[int]) -> Tensor:
    """The result (m, batch, n) times the scale of each column, as (m, 1, batch * n)."""
    name = "npu_transpose_batchmatmul"
    check(order == [1, 0, 2], name, f"perm_y must be [1, 0, 2] beside scale: {order}")
    check_dtype(scale, name, "scale", (torch.int64, torch.uint64))
    rows = result.flatten(1).unsqueeze(1)
    check_shape(scale, name, "scale", (rows.shape[-1],))
    factor, shift = decode_scale(scale.view(torch.int64))
    return to_int8(rows.to(torch.float32) * factor + shift)
