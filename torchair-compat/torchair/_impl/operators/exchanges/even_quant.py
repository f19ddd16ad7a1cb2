"""Quantised products joined to an exchange of equal blocks among ranks.

After the schemas and tests of op-plugin's operators npu_all_to_all_quant_matmul and
npu_quant_matmul_all_to_all."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from ..checks import FLOATS, check, check_dtype, check_shape
from ..definition import npu_operator
from ..element_types import (
    ElementType,
    element_type,
    given_type,
    number_of,
    scalar_type,
)
from ..products.rank_groups import check_group, check_turns, exchanged, side_by_side
from ..products.rank_products import check_depth
from ..products.small_products import E8M0_BYTES, SMALL_TYPES, small_product
from ..quantisation.rows import unit_for_zero
from ..schema import Reserved
from . import even_integers as integers
from .even_integers import DYNAMIC, PER_CHANNEL, PER_TOKEN

_HALF = (torch.float16, torch.bfloat16)
_EIGHTS = ("float8_e4m3fn", "float8_e5m2", "hifloat8")
_RESULTS = (torch.float16, torch.bfloat16, torch.float32)
_MX = 6
_INT8 = 1  # PyTorch's number of the dtype
_E5M2 = 23  # PyTorch's number of the dtype


def _check_options(
    name: str,
    x1: Tensor,
    x2: Tensor,
    modes: tuple[int, int, int | None],
    known: tuple[tuple[int, int], ...],
    axes: tuple[list[int] | None, list[int]],
    rest: tuple[int | None, list[int] | None, str | None],
) -> None:
    """RuntimeError: operands that are no matrices, or options that nothing here has."""
    comm_dtype, group_sizes, comm_mode = rest
    check_turns(name, 0, comm_mode)
    for what, operand in (("x1", x1), ("x2", x2)):
        check(
            operand.dim() == 2, name, f"{what} must have 2 dimensions: {operand.dim()}"
        )
    text = f"x1_quant_mode and x2_quant_mode must be one of {known}, got {modes[:2]}"
    check(modes[:2] in known, name, text)
    text = f"common_quant_mode must be 0, got {modes[2]}"
    check(modes[2] in (None, 0), name, text)
    text = f"comm_quant_dtype must be -1 or None, got {comm_dtype}"
    check(comm_dtype in (None, -1), name, text)
    given, right = axes
    text = f"all2all_axes must be {right} or None, got {given}"
    check(given is None or list(given) == right, name, text)
    allowed = ([0], [0, 0, 0], [1, 1, 32]) if modes[0] == _MX else ([0], [0, 0, 0])
    text = f"group_sizes must be None or one of {allowed}, got {group_sizes}"
    check(group_sizes is None or list(group_sizes) in allowed, name, text)


def _scaled(
    name: str,
    operands: tuple[Tensor, Tensor],
    scales: tuple[Tensor, Tensor | None],
    bias: Tensor | None,
) -> Tensor:
    """(rows @ columns + bias) times the scales (m,) and (n,), in f32."""
    rows, columns = operands
    check_depth(name, rows, columns)
    width = columns.shape[1]
    check_dtype(bias, name, "bias", FLOATS)
    check_shape(bias, name, "bias", (width,))
    of_rows, of_columns = scales
    check(of_columns is not None, name, "x2_scale is needed")
    assert of_columns is not None
    check_dtype(of_columns, name, "x2_scale", (torch.float32,))
    check_shape(of_columns, name, "x2_scale", (width,), (1, width), (1,))
    sums = rows @ columns
    sums = sums if bias is None else sums + bias.to(torch.float32)
    return sums * of_rows.reshape(-1, 1) * of_columns.reshape(1, -1)


class _MxTypes(NamedTuple):
    """The numbers of the types of operands and scales in MX blocks. None: their dtypes."""

    x1: int | None
    x2: int | None
    x1_scale: int | None
    x2_scale: int | None

    def product(
        self,
        name: str,
        operands: tuple[Tensor, Tensor],
        scales: tuple[Tensor, Tensor | None],
        bias: Tensor | None,
        kind: torch.dtype,
    ) -> Tensor:
        """The product of scaled blocks plus bias."""
        rows, columns = scales
        check(columns is not None, name, "x2_scale is needed")
        assert columns is not None
        return small_product(
            name,
            *operands,
            columns,
            rows,
            bias,
            output_dtype=number_of(kind),
            x1_dtype=self.x1,
            x2_dtype=self.x2,
            pertoken_scale_dtype=self.x1_scale,
            scale_dtype=self.x2_scale,
        )


def _check_none(name: str, text: str, **given: object) -> None:
    """RuntimeError: one of these arguments, which `text` says are not for it, is there."""
    for what, value in given.items():
        check(value is None, name, f"{what} {text}")


def _given(mode: int | None, usual: int) -> int:
    return usual if mode is None else mode


def _result(name: str, y_dtype: int | None) -> torch.dtype:
    number = None if y_dtype == -1 else y_dtype
    return scalar_type(number, name, "y_dtype", _RESULTS) or torch.float32


def _quantised(rows: Tensor, kind: ElementType) -> tuple[Tensor, Tensor]:
    """The f32 values of rows that are rounded to a small float by their largest element,
    and the scale of each row."""
    assert kind.floats is not None
    wide = rows.to(torch.float32)
    scale = unit_for_zero(wide.abs().amax(-1) / kind.floats.largest)
    codes = kind.floats.encode(wide / scale.unsqueeze(-1))
    return kind.floats.decode(codes), scale


@npu_operator
def npu_all_to_all_quant_matmul(
    x1: Tensor,
    x2: Tensor,
    hcom: str,
    world_size: int,
    *,
    all2all_out_flag: bool = True,
    bias: Tensor | None = None,
    x1_scale: Tensor | None = None,
    x2_scale: Tensor | None = None,
    common_scale: Reserved[Tensor | None] = None,
    x1_offset: Reserved[Tensor | None] = None,
    x2_offset: Reserved[Tensor | None] = None,
    x1_quant_mode: int | None = None,
    x2_quant_mode: int | None = None,
    common_quant_mode: int | None = None,
    group_sizes: list[int] | None = None,
    all2all_axes: list[int] | None = None,
    comm_quant_dtype: int | None = None,
    x1_quant_dtype: int | None = None,
    x1_dtype: int | None = None,
    x2_dtype: int | None = None,
    x1_scale_dtype: int | None = None,
    x2_scale_dtype: int | None = None,
    output_scale_dtype: Reserved[int | None] = None,
    comm_scale_dtype: Reserved[int | None] = None,
    y_dtype: int | None = None,
    comm_mode: str | None = None,
) -> tuple[Tensor, Tensor]:
    """npu_all_to_all_matmul that quantises the exchanged rows, each by its largest element:
    (rows @ x2 + bias) times the scale of each row and x2_scale; or of rows in MX blocks,
    rows @ x2 + bias; or of integers, rows @ x2 in exact int32, times the scale of each row
    and x2_scale, plus bias. Returns (product, rows).

    x1              (m, h) float16 or bfloat16
    x2              (h * ranks, n): float8_e4m3fn, float8_e5m2, or bytes of hifloat8 with
                    x2_dtype; int8, or int32 (h * ranks, n / 8) with eight int4 each, of
                    which x1 may be, too
    x2_scale        float32 (n,), (1, n) or (1,); bias (n,)
    x1_scale        for x2 of integers, what columns of the rows are multiplied by before they
                    are quantised, (h * ranks,) in x1's dtype; float32 (m,) for x1 of int4
    x1_quant_mode   7 (None), or 3 for x1 of int4, and x2_quant_mode 2 (None); or both 6: x1 and x2 are
                    float8_e4m3fn, float8_e5m2, or bytes of float4 with x1_dtype and
                    x2_dtype, x1_scale is float8_e8m0fnu (m, h / 64, 2), and x2_scale
                    (h * ranks / 64, n, 2), or bytes of it with the dtypes of scales
    x1_quant_dtype  what rows are rounded to: float8_e5m2 (None), or another type of x2;
                    int8 or None for x2 of int8, None for int4
    y_dtype         float16, bfloat16 or float32 (None); that of x1 for x2 of integers,
                    float16 or bfloat16 for x1 of int4

    RuntimeError: another shape, dtype, mode, group or option.
    """
    name = "npu_all_to_all_quant_matmul"
    size = check_group(name, hcom, world_size)
    first, second = _given(x1_quant_mode, DYNAMIC), _given(x2_quant_mode, PER_CHANNEL)
    modes = first, second, common_quant_mode
    rest = comm_quant_dtype, group_sizes, comm_mode
    known = ((DYNAMIC, PER_CHANNEL), (_MX, _MX))
    if integers.is_integer(x2):
        known = integers.EXCHANGED_MODES
    _check_options(name, x1, x2, modes, known, (all2all_axes, [-2, -1]), rest)
    m = x1.shape[0]
    check(m % size == 0, name, f"{size} ranks must divide the rows of x1, {m}")
    kind = _result(name, y_dtype)
    numbers = {
        "x1_dtype": x1_dtype,
        "x1_scale_dtype": x1_scale_dtype,
        "x2_scale_dtype": x2_scale_dtype,
    }
    if integers.is_integer(x2):
        _check_none(name, "is for small floats", x2_dtype=x2_dtype, **numbers)
        usual = (None, _INT8) if x2.dtype == torch.int8 else (None,)
        text = f"x1_quant_dtype must be one of {usual}, got {x1_quant_dtype}"
        check(x1_quant_dtype in usual, name, text)
        tables = integers.Tables(x1_scale, x2_scale, bias)
        made, rows = integers.exchanged_product(
            name, x1, x2, hcom, size, first, tables, kind
        )
    elif first == _MX:
        rows = side_by_side(x1.view(torch.uint8), size, hcom).view(x1.dtype)
        scales = _arrived_scales(name, x1_scale, x1, x1_dtype, size, hcom)
        told = _MxTypes(x1_dtype, x2_dtype, x1_scale_dtype, x2_scale_dtype)
        made = told.product(name, (rows, x2), (scales, x2_scale), bias, kind)
    else:
        text = f"needs x1_quant_mode {_MX}"
        _check_none(name, text, x1_scale=x1_scale, **numbers)
        check_dtype(x1, name, "x1", _HALF)
        right = given_type(x2, x2_dtype, name, "x2", _EIGHTS)
        number = _E5M2 if x1_quant_dtype is None else x1_quant_dtype
        left = element_type(number, name, "x1_quant_dtype", _EIGHTS)
        rows = side_by_side(x1, size, hcom)
        values, scale = _quantised(rows, left)
        made = _scaled(name, (values, right.load(x2)), (scale, x2_scale), bias)
    return made.to(kind), rows if all2all_out_flag else rows.new_empty(0)


def _arrived_scales(
    name: str,
    scale: Tensor | None,
    x1: Tensor,
    number: int | None,
    size: int,
    hcom: str,
) -> Tensor:
    """The scales of the blocks of exchanged rows, (m / size, h * size / 64, 2)."""
    check(scale is not None, name, f"x1_scale is needed in x1_quant_mode {_MX}")
    assert scale is not None
    packed = given_type(x1, number, name, "x1", SMALL_TYPES).is_packed
    width = x1.shape[1] * (2 if packed else 1)
    even = width % 64 == 0
    check(even, name, f"rows of x1 must have a multiple of 64 elements, got {width}")
    check_dtype(scale, name, "x1_scale", E8M0_BYTES)
    check_shape(scale, name, "x1_scale", (x1.shape[0], width // 64, 2))
    arrived = side_by_side(scale.view(torch.uint8).flatten(1), size, hcom)
    return arrived.unflatten(1, (-1, 2)).view(scale.dtype)


@npu_operator
def npu_quant_matmul_all_to_all(
    x1: Tensor,
    x2: Tensor,
    hcom: str,
    world_size: int,
    bias: Tensor | None = None,
    x1_scale: Tensor | None = None,
    x2_scale: Tensor | None = None,
    common_scale: Reserved[Tensor | None] = None,
    x1_offset: Reserved[Tensor | None] = None,
    x2_offset: Reserved[Tensor | None] = None,
    x1_quant_mode: int | None = None,
    x2_quant_mode: int | None = None,
    common_quant_mode: int | None = None,
    group_sizes: list[int] | None = None,
    all2all_axes: list[int] | None = None,
    comm_quant_dtype: int | None = None,
    x1_dtype: int | None = None,
    x2_dtype: int | None = None,
    x1_scale_dtype: int | None = None,
    x2_scale_dtype: int | None = None,
    output_scale_dtype: Reserved[int | None] = None,
    comm_scale_dtype: Reserved[int | None] = None,
    y_dtype: int | None = None,
    comm_mode: str | None = None,
) -> Tensor:
    """npu_matmul_all_to_all of small floats: (x1 @ x2 + bias) times x1_scale and x2_scale,
    or in MX formats x1 @ x2 of scaled blocks plus bias; or of int8, x1 @ x2 in exact int32
    times x1_scale and x2_scale, plus bias.

    x1, x2          (m, k) and (k, n): int8, float8_e4m3fn, float8_e5m2, or bytes of hifloat8 or
                    float4 with x1_dtype and x2_dtype
    x1_scale, x2_scale  float32 (m,) or (m, 1), and (n,), (1, n) or (1,), with quant modes 3
                    and 2 (None); bytes of float8_e8m0fnu (m, k / 64, 2) and (k / 64, n, 2)
                    with modes 6
    y_dtype         float16, bfloat16 or float32 (None); not float32 for int8

    RuntimeError: another shape, dtype, mode, group or option.
    """
    name = "npu_quant_matmul_all_to_all"
    size = check_group(name, hcom, world_size)
    first, second = _given(x1_quant_mode, PER_TOKEN), _given(x2_quant_mode, PER_CHANNEL)
    modes = first, second, common_quant_mode
    rest = comm_quant_dtype, group_sizes, comm_mode
    known: tuple[tuple[int, int], ...] = ((PER_TOKEN, PER_CHANNEL),)
    if not integers.is_integer(x2):
        known = (*known, (_MX, _MX))
    _check_options(name, x1, x2, modes, known, (all2all_axes, [-1, -2]), rest)
    check(x1_scale is not None, name, "x1_scale is needed")
    assert x1_scale is not None
    kind = _result(name, y_dtype)
    if integers.is_integer(x2):
        told = {"x1_dtype": x1_dtype, "x2_dtype": x2_dtype}
        told |= {"x1_scale_dtype": x1_scale_dtype, "x2_scale_dtype": x2_scale_dtype}
        _check_none(name, "is for small floats", **told)
        tables = integers.Tables(x1_scale, x2_scale, bias)
        made = integers.scaled_product(name, x1, x2, tables, kind)
    elif first == _MX:
        types = _MxTypes(x1_dtype, x2_dtype, x1_scale_dtype, x2_scale_dtype)
        made = types.product(name, (x1, x2), (x1_scale, x2_scale), bias, kind)
    else:
        for what, number in (
            ("x1_scale_dtype", x1_scale_dtype),
            ("x2_scale_dtype", x2_scale_dtype),
        ):
            scalar_type(number, name, what, (torch.float32,))
        left = given_type(x1, x1_dtype, name, "x1", _EIGHTS)
        right = given_type(x2, x2_dtype, name, "x2", _EIGHTS)
        check_dtype(x1_scale, name, "x1_scale", (torch.float32,))
        m = x1.shape[0]
        check_shape(x1_scale, name, "x1_scale", (m,), (m, 1))
        operands = left.load(x1), right.load(x2)
        made = _scaled(name, operands, (x1_scale, x2_scale), bias).to(kind)
    columns = made.shape[1]
    even = columns % size == 0
    check(even, name, f"{size} ranks must divide the columns of x2, {columns}")
    parts = made.unflatten(-1, (size, -1)).transpose(0, 1)
    return exchanged(parts, hcom).flatten(0, 1)
