"""Products of integers whose scales have a row for each part of k; and npu_quant_matmul of
such weights of int4.

After Ascend's API reference of torch_npu, page npu_quant_matmul, and of its kernels, page
aclnnQuantMatmulV5."""

from __future__ import annotations

import torch
from torch import Tensor

from ..checks import check, check_dtype, check_shape
from ..quantisation.integer_sums import decode_scale, integer_product
from ..quantisation.integers import unpack_int4

__all__ = ["by_parts", "check_parts", "product_by_parts"]

_NAME = "npu_quant_matmul"
_NIBBLES = 8


def check_parts(name: str, table: Tensor, weight: Tensor, what: str) -> None:
    """RuntimeError: the table (..., parts, n) has other columns than the weight, or its
    parts do not divide the weight's rows."""
    (inner, width), (parts, columns) = weight.shape[-2:], table.shape[-2:]
    check(
        columns == width and parts > 0 and inner % parts == 0,
        name,
        f"{what} must have shape ({width},), or (parts, {width}) with parts that divide"
        f" {inner}, got {(parts, columns)}",
    )


def by_parts(
    name: str,
    x: Tensor,
    weight: Tensor,
    scale: Tensor,
    offset: Tensor | None,
    less: int = 0,
) -> Tensor:
    """(x - less) @ weight in f32, of int8. Each part of k has scales of its own, and
    offsets, which multiply the sums of x's rows."""
    scale = decode_scale(scale)[0] if scale.dtype == torch.int64 else scale
    same = offset is None or offset.shape == scale.shape
    check(same, name, "offset must have the shape of scale")
    check_parts(name, scale, weight, "scale")
    parts = scale.shape[-2]
    size = weight.shape[-2] // parts
    values: Tensor | None = None
    for part in range(parts):
        rows, own = slice(part * size, (part + 1) * size), slice(part, part + 1)
        left, right = x[..., rows], weight[..., rows, :]
        total = integer_product(left, right)
        if less:
            sums = right.sum(-2, keepdim=True, dtype=torch.int32)
            total = total - less * sums
        made = total.to(torch.float32) * scale[..., own, :].to(torch.float32)
        if offset is not None:
            sums = left.sum(-1, keepdim=True, dtype=torch.int32)
            made = made + sums.to(torch.float32) * offset[..., own, :]
        values = made if values is None else values + made
    assert values is not None
    return values


def product_by_parts(
    x1: Tensor,
    x2: Tensor,
    scale: Tensor,
    offset: Tensor | None,
    pertoken_scale: Tensor | None,
    bias: Tensor | None,
    kind: torch.dtype,
    group_sizes: list[int] | None,
) -> Tensor:
    """npu_quant_matmul of matrices, with x2 of packed int4 and a scale (parts, n).

    x1 of int4:  (x1 @ ((x2 - offset) * scale)) * pertoken_scale, offset as scale
    x1 of int8:  ((x1 - 8) @ (x2 * scale) + offset) * pertoken_scale, offset (n,)
    """
    check(bias is None, _NAME, "bias must be None for a weight of int4 in parts")
    check_dtype(x2, _NAME, "x2", (torch.int32,))
    for what, operand in (("x1", x1), ("x2", x2)):
        text = f"{what} must have 2 dimensions, got {operand.dim()}"
        check(operand.dim() == 2, _NAME, text)
    check_dtype(pertoken_scale, _NAME, "pertoken_scale", (torch.float32,))
    check(pertoken_scale is not None, _NAME, "pertoken_scale is needed beside int4")
    check(offset is not None, _NAME, "offset is needed for a weight of int4 in parts")
    assert pertoken_scale is not None
    assert offset is not None
    known = kind in (torch.float16, torch.bfloat16)
    check(known, _NAME, f"output_dtype must be float16 or bfloat16, got {kind}")
    left = unpack_int4(x1) if x1.dtype == torch.int32 else x1
    right = _unpacked(x2, left.shape[1])
    (m, k), n = left.shape, right.shape[1]
    check(
        right.shape[0] == k, _NAME, f"x1 has {k} columns and x2 {right.shape[0]} rows"
    )
    check_shape(pertoken_scale, _NAME, "pertoken_scale", (m,), (m, 1))
    check_parts(_NAME, scale, right, "scale")
    _check_group(group_sizes, k // scale.shape[0])
    if x1.dtype == torch.int32:
        check_dtype(scale, _NAME, "scale", (torch.float32,))
        check_dtype(offset, _NAME, "offset", (torch.float16,))
        check_shape(offset, _NAME, "offset", tuple(scale.shape))
        shift = offset.to(torch.float32) * -scale
        made = by_parts(_NAME, left, right, scale, shift)
    else:
        check_dtype(scale, _NAME, "scale", (torch.int64,))
        check_dtype(offset, _NAME, "offset", (torch.float32,))
        check_shape(offset, _NAME, "offset", (n,), (1, n))
        made = by_parts(_NAME, left, right, scale, None, less=8) + offset
    return (made * pertoken_scale.reshape(m, 1)).to(kind)


def _unpacked(x2: Tensor, k: int) -> Tensor:
    """int8 (k, n). A transposed view of a packed matrix is packed along k."""
    if x2.shape[0] * _NIBBLES == k:
        return unpack_int4(x2.t()).t()
    return unpack_int4(x2)


def _check_group(sizes: list[int] | None, size: int) -> None:
    given = 0 if sizes is None else sizes[2]
    text = f"group_sizes must end with {size}, which scale has parts of, got {sizes}"
    check(given in (0, size), _NAME, text)
