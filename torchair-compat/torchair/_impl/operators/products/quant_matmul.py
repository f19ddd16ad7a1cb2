"""npu_quant_matmul and its helpers: products of integers with scales."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..checks import check, check_dtype, check_shape
from ..definition import called_by, npu_operator
from ..element_types import scalar_type
from ..quantisation.integer_sums import decode_scale, integer_product, scale_sums
from ..quantisation.integers import to_int8, unpack_int4
from .int4_parts import product_by_parts
from .small_products import is_small, small_product

_NAME = "npu_quant_matmul"
_FLOATS = {torch.bfloat16, torch.float16, torch.float32}
_SCALED = {torch.int64, torch.float32}
_INT32 = {torch.int32, None}
_BIASES = {torch.int32, torch.bfloat16, torch.float16, torch.float32, None}
_F32 = {torch.float32, torch.bfloat16}

# For each output dtype: the dtypes of (scale, offset, bias, pertoken_scale), with None
# where an argument may be missing. First for int8 operands, then for packed int4.
_Row = tuple[set, set, set, set]
_INT8_ROWS: dict[torch.dtype, list[_Row]] = {
    torch.float16: [
        (_SCALED, {None}, _INT32, {None}),
        ({torch.float32}, {None}, _BIASES, {torch.float32}),
    ],
    torch.int8: [(_SCALED, {torch.float32, None}, _INT32, {None})],
    torch.bfloat16: [(_F32, {None}, _BIASES, {torch.float32, None})],
    torch.int32: [(_F32, {None}, _INT32, {None})],
}
_INT4_BY_ROW: _Row = ({torch.float32}, {None}, {None}, {torch.float32})
_INT4_ROWS: dict[torch.dtype, list[_Row]] = {
    torch.float16: [(_SCALED, {None}, {None}, {None}), _INT4_BY_ROW],
    torch.bfloat16: [_INT4_BY_ROW],
}


def _with_blocks(x1: Tensor, x2: Tensor, scale: Tensor, **options: Any) -> Tensor:
    """The operator. In a compiled graph the product reads the blocks of an x2 in
    FRACTAL_NZ; an exported package packs the weight itself."""
    if torch.compiler.is_compiling() and not torch.compiler.is_exporting():
        options["blocks"] = x2._npu_blocks  # type: ignore[attr-defined]
    return torch.ops.npu.npu_quant_matmul(x1, x2, scale, **options)


@called_by(_with_blocks)
@npu_operator
def npu_quant_matmul(
    x1: Tensor,
    x2: Tensor,
    scale: Tensor,
    *,
    offset: Tensor | None = None,
    pertoken_scale: Tensor | None = None,
    bias: Tensor | None = None,
    output_dtype: int | None = None,
    x1_dtype: int | None = None,
    x2_dtype: int | None = None,
    pertoken_scale_dtype: int | None = None,
    scale_dtype: int | None = None,
    group_sizes: list[int] | None = None,
    y_scale: Tensor | None = None,
    blocks: Tensor | None = None,
) -> Tensor:
    """x1 @ x2 in exact int32, times `scale` and `pertoken_scale`, plus `offset` or bias.

    x1, x2          (..., m, k) and (..., k, n): int8, or int32 with eight int4 each
    scale           (1,) or (n,)
    pertoken_scale  (m,)
    bias            (n,) or (batch, 1, n)
    output_dtype    of the result; None: int8
    group_sizes     ends with the size of the parts that k has: x2 of int4 may have a scale
                    (parts, n). With x1 of int4, f32, and an offset of f16 that x2 loses
                    first; with x1 of int8, int64 of npu_trans_quant_param, and an offset
                    (n,) that is added before `pertoken_scale`. This form takes 8 from x1:
                    the offset has 8 * x2 * scale, summed over k, to give it back
    blocks          of x2 (k, n) in FRACTAL_NZ, int8 also for int4; a compiled product
                    reads them

    Operands may be small floats too: float8_e4m3fn and float8_e5m2, and bytes that x1_dtype
    and x2_dtype say are hifloat8, float4_e2m1fn_x2 or float4_e1m2fn_x2 (two elements along k
    each; x2 (k, n / 2) two along n). Then `output_dtype` is float16, bfloat16 or float32,
    products are summed in f32, and scales are f32 as above, or of float8_e8m0fnu (bytes with
    scale_dtype and pertoken_scale_dtype) for blocks of 32 along k: scale (..., ceil(k / 64),
    n, 2) and pertoken_scale (..., m, ceil(k / 64), 2), with group_sizes [1, 1, 32]. f32
    scales (..., ceil(k / 128), ceil(n / 128)) belong to blocks, with pertoken_scale (...,
    m, ceil(k / 128)) or (..., ceil(m / 128), ceil(k / 128)) and group_sizes [1 or 128, 128,
    128].
    RuntimeError: shapes or dtypes that do not fit together.
    """
    check(y_scale is None, _NAME, "y_scale must be None")
    _check_groups(group_sizes)
    later: dict[str, Any] = {
        "pertoken_scale_dtype": pertoken_scale_dtype,
        "scale_dtype": scale_dtype,
    }
    if is_small(x1, x1_dtype) or is_small(x2, x2_dtype):
        check(offset is None, _NAME, "offset must be None for operands of small floats")
        check(blocks is None, _NAME, "blocks are for int8")
        later |= {"x1_dtype": x1_dtype, "x2_dtype": x2_dtype}
        later |= {"output_dtype": output_dtype}
        tables = (scale, pertoken_scale, bias)
        return small_product(_NAME, x1, x2, *tables, group_sizes=group_sizes, **later)
    text = "pertoken_scale_dtype and scale_dtype must be None for operands of integers"
    check(not any(v is not None for v in later.values()), _NAME, text)
    if x1.dtype in (torch.int8, torch.int32) and _is_by_parts(x1, x2, scale):
        kind = _result(output_dtype)
        return product_by_parts(
            x1, x2, scale, offset, pertoken_scale, bias, kind, group_sizes
        )
    return _of_integers(
        x1, x2, scale, offset, bias, pertoken_scale, output_dtype, blocks
    )


def _is_by_parts(x1: Tensor, x2: Tensor, scale: Tensor) -> bool:
    """Whether x2 is of int4, and x1 of int8, or the scale has a row for each part of k."""
    return x2.dtype == torch.int32 and (x1.dtype == torch.int8 or scale.dim() == 2)


def _result(output_dtype: int | None) -> torch.dtype:
    results = (torch.int8, torch.int32, torch.float16, torch.bfloat16)
    return scalar_type(output_dtype, _NAME, "output_dtype", results) or torch.int8


def _of_integers(
    x1: Tensor,
    x2: Tensor,
    scale: Tensor,
    offset: Tensor | None,
    bias: Tensor | None,
    pertoken_scale: Tensor | None,
    output_dtype: int | None,
    blocks: Tensor | None,
) -> Tensor:
    """The operator for int8 and packed int4.

    The order of roundings: product and int32 bias in int32; then in f32 times scale,
    times pertoken_scale, plus bias or offset; then once to the output dtype. An int32
    result is not scaled.
    """
    kind = _result(output_dtype)
    packed = _check_dtypes(x1, x2, kind, scale, offset, bias, pertoken_scale)
    if packed:
        if _is_packed_along_k(x1, x2):
            blocks = None
        x1, x2 = unpack_operands(x1, x2)
    _check_shapes(x1, x2, scale, offset, bias, pertoken_scale)
    total = integer_product(x1, x2, blocks)
    if bias is not None and bias.dtype == torch.int32:
        total = total + bias
    if kind == torch.int32:
        return total
    if scale.dtype == torch.int64:
        scale, shift = decode_scale(scale)
        offset = shift if offset is None and kind == torch.int8 else offset
    values = scale_sums(total, scale, pertoken_scale, bias)
    if offset is not None:
        values = values + offset.to(torch.float32)
    return to_int8(values) if kind == torch.int8 else values.to(kind)


def _check_dtypes(
    x1: Tensor, x2: Tensor, kind: torch.dtype, *others: Tensor | None
) -> bool:
    """Checks the dtypes. Returns whether the operands are packed int4."""
    check(
        x1.dtype == x2.dtype and x1.dtype in (torch.int8, torch.int32),
        _NAME,
        f"x1 and x2 must both be int8 or int32, got {x1.dtype} and {x2.dtype}",
    )
    packed = x1.dtype == torch.int32
    rows = (_INT4_ROWS if packed else _INT8_ROWS).get(kind)
    check(rows is not None, _NAME, f"output_dtype must not be {kind}")
    found = [None if tensor is None else tensor.dtype for tensor in others]
    check(
        any(all(d in allowed for d, allowed in zip(found, row)) for row in rows or ()),
        _NAME,
        "no such combination of dtypes: scale {}, offset {}, bias {}, pertoken_scale {}"
        " for a result of {}".format(*found, kind),
    )
    return packed


def _check_shapes(
    x1: Tensor,
    x2: Tensor,
    scale: Tensor,
    offset: Tensor | None,
    bias: Tensor | None,
    pertoken_scale: Tensor | None,
) -> None:
    for name, operand in (("x1", x1), ("x2", x2)):
        check(
            2 <= operand.dim() <= 6,
            _NAME,
            f"{name} must have 2 to 6 dimensions, got {operand.dim()}",
        )
    m, k, n = x1.shape[-2], x1.shape[-1], x2.shape[-1]
    check(
        k == x2.shape[-2],
        _NAME,
        f"the last dimension of x1 ({k}) must be the last but one of x2"
        f" ({x2.shape[-2]})",
    )
    batch = _batch(x1, x2)
    check_shape(scale, _NAME, "scale", (1,), (n,))
    check_shape(offset, _NAME, "offset", (1,), (n,))
    check_shape(pertoken_scale, _NAME, "pertoken_scale", (m,))
    per_batch = [(batch[0], 1, n)] if len(batch) == 1 else []
    check_shape(bias, _NAME, "bias", (n,), *per_batch)


def _check_groups(sizes: list[int] | None) -> None:
    if sizes is not None:
        check(
            len(sizes) == 3 and all(0 <= size <= 65535 for size in sizes),
            _NAME,
            f"group_sizes must be 3 numbers from 0 to 65535, got {list(sizes)}",
        )


def _batch(x1: Tensor, x2: Tensor) -> list[int]:
    """The dimensions before the matrices, broadcast."""
    left, right = list(x1.shape[:-2]), list(x2.shape[:-2])
    more = len(left) - len(right)
    left, right = [1] * max(-more, 0) + left, [1] * max(more, 0) + right
    check(
        all(a == b or 1 in (a, b) for a, b in zip(left, right)),
        _NAME,
        f"the batches of x1, {tuple(x1.shape)}, and of x2, {tuple(x2.shape)}, can't be"
        " broadcast together",
    )
    return [b if a == 1 else a for a, b in zip(left, right)]


def unpack_operands(x1: Tensor, x2: Tensor) -> tuple[Tensor, Tensor]:
    """Unpacks int4. x2 is packed along n, or along k if it has an eighth of the rows."""
    if _is_packed_along_k(x1, x2):
        x2 = unpack_int4(x2.transpose(-1, -2)).transpose(-1, -2)
    else:
        x2 = unpack_int4(x2)
    return unpack_int4(x1), x2


def _is_packed_along_k(x1: Tensor, x2: Tensor) -> bool:
    return x2.shape[-2] == x1.shape[-1]


@npu_operator
def npu_trans_quant_param(
    scale: Tensor, offset: Tensor | None = None, round_mode: int | None = 0
) -> Tensor:
    """Packs f32 scale and offset into int64: the upper 19 bits of the scale, bit 46,
    and the rounded offset in nine bits from bit 37.

    offset      as many as there are scales, or one; several of them share a scale of one
    round_mode  1 rounds the scale, 0 truncates it

    RuntimeError: another shape, dtype or round_mode.
    """
    name = "npu_trans_quant_param"
    check_dtype(scale, name, "scale", (torch.float32,))
    check_dtype(offset, name, "offset", (torch.float32,))
    several = offset is not None and tuple(scale.shape) == (1,) and offset.dim() == 1
    if not several:
        check_shape(offset, name, "offset", (1,), tuple(scale.shape))
    check(round_mode in (None, 0, 1), name, f"no such round_mode: {round_mode}")
    bits = scale.contiguous().view(torch.int32).to(torch.int64) & 0xFFFFFFFF
    if round_mode == 1:
        bits = bits + 0x1000
    code = (bits & 0xFFFFE000) | (1 << 46)
    if offset is None:
        return code
    whole = offset.to(torch.float32).round().clamp(-256, 255).to(torch.int64)
    return code | ((whole & 0x1FF) << 37)
