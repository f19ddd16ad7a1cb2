"""Products of operands of eight and four bits with scales: MX blocks, rows and columns.

After Ascend's API reference of torch_npu, page npu_transpose_quant_batchmatmul, and of its
kernels, pages aclnnQuantMatmulV5 and aclnnDualLevelQuantMatmul."""

from __future__ import annotations

import torch
from torch import Tensor

from ..checks import FLOATS, check, check_dtype, check_shape
from ..definition import npu_operator
from ..element_types import ElementType, element_type, given_type, scalar_type
from ..quantisation.integers import unpack_int4
from ..quantisation.small_floats import E2M1, scale_values, unpack_pairs

__all__ = [
    "E8M0_BYTES",
    "SMALL_TYPES",
    "columns_as_rows",
    "is_small",
    "small_product",
    "unpack_floats",
]

_FOURS = ("float4_e2m1fn_x2", "float4_e1m2fn_x2")
_EIGHTS = ("float8_e4m3fn", "float8_e5m2", "hifloat8")
SMALL_TYPES = (*_EIGHTS, *_FOURS)
_BLOCK = 128  # elements of a block with a scale of f32
_FLOAT8 = (torch.float8_e4m3fn, torch.float8_e5m2)
E8M0_BYTES = (torch.uint8, torch.int8, torch.float8_e8m0fnu)


def is_small(tensor: Tensor, number: int | None) -> bool:
    """Whether an operand's elements are floats of eight or four bits."""
    return tensor.dtype in _FLOAT8 or number is not None


def unpack_floats(packed: Tensor) -> Tensor:
    """The f32 values (..., 8 n) of f32 (..., n) whose bits are eight float4_e2m1, as
    npu_convert_weight_to_int4pack makes them."""
    return E2M1.decode(unpack_int4(packed.view(torch.int32)).to(torch.int32) & 15)


def _block_scales(scale: Tensor, width: int) -> Tensor:
    """The f32 factor of each of `width` elements, from e8m0 pairs (..., blocks / 2, 2)."""
    values = scale_values(scale).flatten(-2)
    return values.repeat_interleave(32, -1)[..., :width]


def _mx_operand(
    tensor: Tensor, element: ElementType, scale: Tensor, name: str, what: str
) -> Tensor:
    """The f32 values of rows (..., k) with one scale for 32 elements, from e8m0 codes
    (..., ceil(k / 64), 2)."""
    values = element.load(tensor)
    check_dtype(scale, name, what, E8M0_BYTES)
    width = values.shape[-1]
    check_shape(scale, name, what, (*values.shape[:-1], -(-width // 64), 2))
    return values * _block_scales(scale, width)


def small_product(
    name: str,
    x1: Tensor,
    x2: Tensor,
    scale: Tensor,
    pertoken_scale: Tensor | None,
    bias: Tensor | None,
    *,
    x1_dtype: int | None,
    x2_dtype: int | None,
    scale_dtype: int | None,
    pertoken_scale_dtype: int | None,
    output_dtype: int | None,
    group_sizes: list[int] | None = None,
) -> Tensor:
    """The product of npu_quant_matmul for operands of eight or four bits that are floats,
    in f32. Scales of float8_e8m0fnu belong to blocks of 32 along k; others to columns and
    rows, or with as many dimensions as the operands to blocks of 128."""
    left = given_type(x1, x1_dtype, name, "x1", SMALL_TYPES)
    right = given_type(x2, x2_dtype, name, "x2", SMALL_TYPES)
    together = left.is_packed == right.is_packed
    check(together, name, f"x1 of {left.name} and x2 of {right.name} don't go together")
    kinds = (torch.float16, torch.bfloat16, torch.float32)
    kind = scalar_type(output_dtype, name, "output_dtype", kinds)
    check(kind is not None, name, "output_dtype is needed for operands of small floats")
    assert kind is not None
    if _is_e8m0(scale, scale_dtype, "scale_dtype", name):
        check(pertoken_scale is not None, name, "pertoken_scale is needed beside e8m0")
        assert pertoken_scale is not None
        e8m0 = _is_e8m0(
            pertoken_scale, pertoken_scale_dtype, "pertoken_scale_dtype", name
        )
        check(e8m0, name, "pertoken_scale must be float8_e8m0fnu as scale is")
        rows = _mx_operand(x1, left, pertoken_scale, name, "pertoken_scale")
        columns = _mx_operand(
            *columns_as_rows(x2, right), scale.transpose(-2, -3), name, "scale"
        )
        result = torch.matmul(rows, columns.transpose(-1, -2))
    else:
        check(
            not left.is_packed, name, "x1 of four bits needs scales of float8_e8m0fnu"
        )
        rows, columns = left.load(x1), right.load(x2)
        if scale.dim() >= 2:
            scales = scale, pertoken_scale
            result = _by_blocks(rows, columns, *scales, group_sizes, name)
        else:
            result = torch.matmul(rows, columns)
            result = _scaled(result, scale, pertoken_scale, name)
    if bias is not None:
        check_dtype(bias, name, "bias", FLOATS)
        check_shape(bias, name, "bias", (result.shape[-1],))
        result = result + bias.to(torch.float32)
    return result.to(kind)


def _is_e8m0(scale: Tensor, number: int | None, what: str, name: str) -> bool:
    if number is None:
        return scale.dtype == torch.float8_e8m0fnu
    known = ("float8_e8m0fnu", "float32")
    return element_type(number, name, what, known).name == "float8_e8m0fnu"


def columns_as_rows(x2: Tensor, element: ElementType) -> tuple[Tensor, ElementType]:
    """x2 (..., k, n) as rows (..., n, k). Of four bits, a transposed view is packed along
    k, another along n."""
    if not element.is_packed or x2.stride(-1) != 1 or x2.stride(-2) == 1:
        return x2.transpose(-1, -2), element
    assert element.floats is not None
    values = element.floats.decode(unpack_pairs(x2)).transpose(-1, -2)
    return values, ElementType("float32", torch.float32)


def _scaled(
    result: Tensor, scale: Tensor, pertoken_scale: Tensor | None, name: str
) -> Tensor:
    m, n = result.shape[-2:]
    check_dtype(scale, name, "scale", (torch.float32, torch.bfloat16))
    check_shape(scale, name, "scale", (1,), (n,))
    result = result * scale.to(torch.float32)
    if pertoken_scale is None:
        return result
    check_dtype(pertoken_scale, name, "pertoken_scale", (torch.float32,))
    check_shape(pertoken_scale, name, "pertoken_scale", (1,), (m,))
    return result * pertoken_scale.unsqueeze(-1)


def _by_blocks(
    rows: Tensor,
    columns: Tensor,
    scale: Tensor,
    pertoken_scale: Tensor | None,
    sizes: list[int] | None,
    name: str,
) -> Tensor:
    """The product of operands with f32 scales of blocks: of 128 columns and 128 of k, and
    of one row or 128 and 128 of k."""
    check(pertoken_scale is not None, name, "pertoken_scale is needed for blocks")
    assert pertoken_scale is not None
    height = 1 if pertoken_scale.shape[-2:-1] == rows.shape[-2:-1] else _BLOCK
    given = [0, 0, 0] if sizes is None else list(sizes)
    known = all(a in (0, b) for a, b in zip(given, (height, _BLOCK, _BLOCK)))
    text = f"group_sizes must be [{height}, {_BLOCK}, {_BLOCK}] for such scales"
    check(known, name, f"{text}, got {sizes}")
    wide = []
    for what, operand, table, high in (
        ("pertoken_scale", rows, pertoken_scale, height),
        ("scale", columns, scale, _BLOCK),
    ):
        check_dtype(table, name, what, (torch.float32,))
        m, k = operand.shape[-2:]
        shape = (*operand.shape[:-2], -(-m // high), -(-k // _BLOCK))
        check_shape(table, name, what, shape)
        factors = table.repeat_interleave(_BLOCK, -1)[..., :k]
        if high > 1:
            factors = factors.repeat_interleave(high, -2)[..., :m, :]
        wide.append(operand * factors)
    return torch.matmul(wide[0], wide[1])


@npu_operator
def npu_dual_level_quant_matmul(
    x1: Tensor,
    x2: Tensor,
    x1_level0_scale: Tensor,
    x2_level0_scale: Tensor,
    x1_level1_scale: Tensor,
    x2_level1_scale: Tensor,
    *,
    bias: Tensor | None = None,
    output_dtype: int = 15,
) -> Tensor:
    """x1 (m, k) @ x2 (n, k)^T of float4_e2m1fn_x2 with the scales of
    npu_dynamic_dual_level_mx_quant, plus bias (n,). Computed in f32.

    x1, x2           bytes (m, k / 2) and (n, k / 2); x2 also in FRACTAL_NZ
    x1_level0_scale  float32 (m, k / 512), and x2_level0_scale (k / 512, n)
    x1_level1_scale  bytes of float8_e8m0fnu (m, k / 64, 2), and x2_level1_scale (n, k / 64,
                     2)
    output_dtype     bfloat16 or float16

    RuntimeError: another shape or dtype.
    """
    name = "npu_dual_level_quant_matmul"
    kinds = (torch.float16, torch.bfloat16)
    kind = scalar_type(output_dtype, name, "output_dtype", kinds)
    operands = []
    for what, packed in (("x1", x1), ("x2", x2)):
        check_dtype(packed, name, what, (torch.uint8, torch.int8))
        check(packed.dim() == 2, name, f"{what} must have 2 dimensions: {packed.dim()}")
        operands.append(E2M1.decode(unpack_pairs(packed)))
    k = operands[0].shape[1]
    fits = operands[1].shape[1] == k
    check(fits, name, f"x2 must have {k} elements in a row, got {operands[1].shape[1]}")
    firsts = (x1_level0_scale, x2_level0_scale.t())
    seconds = (x1_level1_scale, x2_level1_scale)
    wide = []
    for what, values, first, second in zip(("x1", "x2"), operands, firsts, seconds):
        check_dtype(first, name, f"{what}_level0_scale", (torch.float32,))
        rows = values.shape[0]
        check_shape(first, name, f"{what}_level0_scale", (rows, -(-k // 512)))
        check_dtype(second, name, f"{what}_level1_scale", E8M0_BYTES)
        check_shape(second, name, f"{what}_level1_scale", (rows, -(-k // 64), 2))
        factor = first.repeat_interleave(512, -1)[:, :k] * _block_scales(second, k)
        wide.append(values * factor)
    result = wide[0] @ wide[1].t()
    if bias is not None:
        check_dtype(bias, name, "bias", FLOATS)
        check_shape(bias, name, "bias", (result.shape[1],))
        result = result + bias.to(torch.float32)
    return result.to(kind)


@npu_operator
def npu_transpose_quant_batchmatmul(
    x1: Tensor,
    x2: Tensor,
    dtype: int,
    *,
    bias: Tensor | None = None,
    x1_scale: Tensor | None = None,
    x2_scale: Tensor | None = None,
    group_sizes: list[int] | None = None,
    perm_x1: list[int] | None = None,
    perm_x2: list[int] | None = None,
    perm_y: list[int] | None = None,
    batch_split_factor: int | None = 1,
    x1_dtype: int | None = None,
    x2_dtype: int | None = None,
) -> Tensor:
    """x1 (m, b, k) @ x2 (b, k, n) for each b, times x2_scale and x1_scale: (m, b, n).
    Computed in f32.

    x1, x2   float8_e4m3fn, float8_e5m2, or hifloat8 (bytes, with x1_dtype and x2_dtype)
    dtype    float16, bfloat16, or hifloat8
    perm_x1, perm_y  [1, 0, 2]
    perm_x2  [0, 1, 2], or [0, 2, 1] for x2 (b, n, k)
    x1_scale, x2_scale  float32 (m,) or (1,), and (n,); or float8_e8m0fnu (m, b, k / 64, 2),
             and (b, k / 64, n, 2) or (b, n, k / 64, 2) in the order of perm_x2, with
             group_sizes [0 or 1, 0 or 1, 32]

    RuntimeError: another shape, dtype or order.
    """
    name = "npu_transpose_quant_batchmatmul"
    check(bias is None, name, "bias must be None")
    split = batch_split_factor in (1, None)
    check(split, name, f"batch_split_factor must be 1, got {batch_split_factor}")
    for what, order in (("perm_x1", perm_x1), ("perm_y", perm_y)):
        known = order is None or list(order) == [1, 0, 2]
        check(known, name, f"{what} must be [1, 0, 2], got {order}")
    order = [0, 1, 2] if perm_x2 is None else list(perm_x2)
    known = order in ([0, 1, 2], [0, 2, 1])
    check(known, name, f"perm_x2 must be [0, 1, 2] or [0, 2, 1], got {order}")
    result = element_type(dtype, name, "dtype", ("float16", "bfloat16", "hifloat8"))
    left = given_type(x1, x1_dtype, name, "x1", _EIGHTS)
    right = given_type(x2, x2_dtype, name, "x2", _EIGHTS)
    for what, operand in (("x1", x1), ("x2", x2)):
        check(
            operand.dim() == 3, name, f"{what} must have 3 dimensions: {operand.dim()}"
        )
    rows, weight = x1.transpose(0, 1), x2 if order[1] == 2 else x2.transpose(1, 2)
    fits = rows.shape[0] == weight.shape[0] and rows.shape[2] == weight.shape[2]
    text = f"x1 of {tuple(x1.shape)} and x2 of {tuple(x2.shape)} don't fit"
    check(fits, name, text)
    mx = x2_scale is not None and x2_scale.dtype in E8M0_BYTES
    _check_group_sizes(name, group_sizes, mx)
    if mx and x2_scale is not None:
        scales = x2_scale if order[1] == 2 else x2_scale.transpose(1, 2)
        made = _mx_batch(name, (rows, left, x1_scale), (weight, right, scales))
    else:
        made = torch.bmm(left.load(rows), right.load(weight).transpose(1, 2))
        made = _scaled_batch(made, x1_scale, x2_scale, name)
    made = made.transpose(0, 1).contiguous()
    if result.floats is not None:
        return result.store(result.floats.encode(made, "round"))
    return made.to(result.stored)


def _mx_batch(
    name: str,
    left: tuple[Tensor, ElementType, Tensor | None],
    right: tuple[Tensor, ElementType, Tensor],
) -> Tensor:
    """The product of rows (b, m, k) and (b, n, k) with scales of blocks."""
    rows, kind, scale = left
    check(scale is not None, name, "x1_scale is needed beside e8m0")
    assert scale is not None
    first = _mx_operand(rows, kind, scale.transpose(0, 1), name, "x1_scale")
    second = _mx_operand(*right, name, "x2_scale")
    return torch.bmm(first, second.transpose(1, 2))


def _check_group_sizes(name: str, sizes: list[int] | None, mx: bool) -> None:
    given = [0, 0, 0] if sizes is None else list(sizes)
    known = len(given) == 3 and given[0] in (0, 1) and given[1] in (0, 1)
    last = (32,) if mx else (0, 32)
    known = known and (given[2] in last or (mx and sizes is None))
    text = "group_sizes must be [0 or 1, 0 or 1, 32] for scales of float8_e8m0fnu"
    check(known, name, f"{text}, else zeros, got {given}")


def _scaled_batch(
    made: Tensor, x1_scale: Tensor | None, x2_scale: Tensor | None, name: str
) -> Tensor:
    _, m, n = made.shape
    for what, scale, shapes in (
        ("x2_scale", x2_scale, ((1,), (n,))),
        ("x1_scale", x1_scale, ((1,), (m,))),
    ):
        if scale is None:
            continue
        check_dtype(scale, name, what, (torch.float32,))
        check_shape(scale, name, what, *shapes)
        made = made * (scale.unsqueeze(-1) if what == "x1_scale" else scale)
    return made
