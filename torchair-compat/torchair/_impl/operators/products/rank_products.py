"""Products joined to a collective: each rank has a part of an operand, or of the sums.

After Ascend's API reference of torch_npu, pages npu_all_gather_base_mm,
npu_mm_reduce_scatter_base and npu_mm_all_reduce_base. Ranks send what they computed in the
dtype of the result."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..checks import check, check_dtype, check_shape
from ..definition import npu_operator
from ..quantisation.integer_sums import decode_scale, integer_product
from ..quantisation.integers import to_int8
from ..schema import Reserved
from .rank_groups import (
    check_gather,
    check_group,
    check_scatter,
    check_turns,
    gathered,
    scattered,
    waited,
)
from .small_products import is_small, small_product

_HALF = (torch.float16, torch.bfloat16)
_SCALES = (torch.float32, torch.int64)


def check_operands(name: str, first: str, x1: Tensor, x2: Tensor) -> None:
    check_dtype(x1, name, first, (*_HALF, torch.float32, torch.int8))
    check_dtype(x2, name, "x2", (x1.dtype,))
    for what, operand in ((first, x1), ("x2", x2)):
        check(
            operand.dim() == 2, name, f"{what} must have 2 dimensions: {operand.dim()}"
        )


def check_depth(name: str, x1: Tensor, x2: Tensor) -> None:
    left, right = tuple(x1.shape), tuple(x2.shape)
    check(left[1] == right[0], name, f"x1 of {left} and x2 of {right} don't fit")


def scaled_product(
    name: str,
    x1: Tensor,
    x2: Tensor,
    bias: Tensor | None,
    x1_scale: Tensor | None,
    x2_scale: Tensor | None,
    output_dtype: torch.dtype | None,
) -> Tensor:
    """x1 @ x2 plus bias, of int8 times the scales of rows (m, 1) and of columns (1, n)."""
    check_depth(name, x1, x2)
    columns = x2.shape[1]
    if x1.dtype != torch.int8:
        for what, scale in (("x1_scale", x1_scale), ("x2_scale", x2_scale)):
            check(scale is None, name, f"{what} must be None for operands of floats")
        known = output_dtype in (None, x1.dtype)
        check(known, name, f"output_dtype must be {x1.dtype}, got {output_dtype}")
        check_dtype(bias, name, "bias", (x1.dtype,))
        check_shape(bias, name, "bias", (columns,))
        made = torch.matmul(x1, x2)
        return made if bias is None else made + bias
    check(x2_scale is not None, name, "x2_scale is needed for operands of int8")
    assert x2_scale is not None
    check_dtype(x2_scale, name, "x2_scale", _SCALES)
    check_shape(x2_scale, name, "x2_scale", (1, columns), (columns,))
    check_dtype(x1_scale, name, "x1_scale", (torch.float32,))
    check_shape(x1_scale, name, "x1_scale", (x1.shape[0], 1), (x1.shape[0],))
    check_dtype(bias, name, "bias", (torch.int32, *_HALF))
    check_shape(bias, name, "bias", (columns,))
    packed = x2_scale.dtype == torch.int64
    kind = output_dtype or (torch.float16 if packed else torch.bfloat16)
    check(kind in _HALF, name, f"output_dtype must be float16 or bfloat16, got {kind}")
    sums = integer_product(x1, x2).to(torch.float32)
    sums = sums if bias is None else sums + bias.to(torch.float32)
    scale = decode_scale(x2_scale)[0] if packed else x2_scale
    values = sums * scale.reshape(1, -1)
    return (values if x1_scale is None else values * x1_scale.reshape(-1, 1)).to(kind)


@npu_operator
def npu_all_gather_base_mm(
    self: Tensor,
    x2: Tensor,
    hcom: str,
    world_size: int,
    *,
    bias: Tensor | None = None,
    x1_scale: Tensor | None = None,
    x2_scale: Tensor | None = None,
    gather_index: int = 0,
    gather_output: bool = True,
    comm_turn: int = 0,
    output_dtype: torch.dtype | None = None,
    comm_mode: str | None = None,
) -> tuple[Tensor, Tensor]:
    """The rows of all ranks @ x2 plus bias, and these rows.

    self      (m, k) float, or int8; x2 (k, n) in the same dtype
    hcom      the name of a group of ranks, and world_size its size
    x1_scale  float32 (m, 1) for int8: of this rank's rows; ranks gather it too
    x2_scale  float32 (1, n), or int64 of npu_trans_quant_param
    gather_output  whether the rows are returned; else an empty tensor

    The product has self's dtype, or `output_dtype` for int8: bfloat16, or float16 for
    int64. RuntimeError: another shape, dtype, group or option.
    """
    name = "npu_all_gather_base_mm"
    size = check_gather(name, hcom, world_size, gather_index, comm_turn, comm_mode)
    check_operands(name, "self", self, x2)
    check_shape(x1_scale, name, "x1_scale", (self.shape[0], 1))
    rows = gathered(self, size, hcom)
    scales = None if x1_scale is None else gathered(x1_scale, size, hcom)
    made = scaled_product(name, rows, x2, bias, scales, x2_scale, output_dtype)
    return made, rows if gather_output else rows.new_empty(0)


@npu_operator
def npu_mm_reduce_scatter_base(
    self: Tensor,
    x2: Tensor,
    hcom: str,
    world_size: int,
    *,
    reduce_op: str = "sum",
    bias: Tensor | None = None,
    x1_scale: Tensor | None = None,
    x2_scale: Tensor | None = None,
    comm_turn: int = 0,
    output_dtype: torch.dtype | None = None,
    comm_mode: str | None = None,
) -> Tensor:
    """This rank's rows of the sum over ranks of self @ x2 plus bias: (m / world_size, n).

    self      (m, k) float, or int8; x2 (k, n) in the same dtype
    hcom      the name of a group of ranks, and world_size its size
    x1_scale  float32 (m, 1) for int8, and x2_scale float32 (1, n), or int64 of
              npu_trans_quant_param

    The result has self's dtype, or `output_dtype` for int8: bfloat16, or float16 for int64.
    RuntimeError: another shape, dtype, group or option.
    """
    name = "npu_mm_reduce_scatter_base"
    size = check_scatter(name, hcom, world_size, reduce_op, comm_turn, comm_mode)
    check_operands(name, "self", self, x2)
    made = scaled_product(name, self, x2, bias, x1_scale, x2_scale, output_dtype)
    return scattered(name, made, size, hcom)


@npu_operator
def npu_mm_all_reduce_base(
    x1: Tensor,
    x2: Tensor,
    hcom: str,
    *,
    reduce_op: str = "sum",
    bias: Tensor | None = None,
    antiquant_scale: Tensor | None = None,
    antiquant_offset: Tensor | None = None,
    x3: Tensor | None = None,
    dequant_scale: Tensor | None = None,
    pertoken_scale: Tensor | None = None,
    comm_quant_scale_1: Tensor | None = None,
    comm_quant_scale_2: Tensor | None = None,
    antiquant_group_size: int = 0,
    comm_turn: int = 0,
    group_sizes: list[int] | None = None,
    y_dtype: int | None = None,
    x1_dtype: int | None = None,
    x2_dtype: int | None = None,
    dequant_scale_dtype: int | None = None,
    pertoken_scale_dtype: int | None = None,
    comm_quant_mode: Reserved[int] = 0,
    comm_mode: str | None = None,
) -> Tensor:
    """The sum over ranks of x1 @ x2 plus bias plus x3.

    x1    (..., m, k) float, of 2 or 3 dimensions, or int8; x2 (k, n) in the same dtype, or
          int8 beside floats: (x2 + antiquant_offset) * antiquant_scale, both (1,), (n,),
          (1, n), or one row for `antiquant_group_size` rows of x2
    hcom  the name of a group of ranks
    dequant_scale   for int8: (1,), (n,) or (1, n); float32, bfloat16 (the result's dtype),
          or int64 of npu_trans_quant_param (the result is float16)
    pertoken_scale  float32, one for each row of x1
    bias  (n,): int32 for int8. x3 has the shape and dtype of the result
    comm_quant_scale_1, comm_quant_scale_2  for int8, (n,) or (1, n) in the result's dtype:
          ranks send int8 times the first, and the sum is rounded to int8 times the second

    Operands may be small floats, as npu_quant_matmul has them, with dequant_scale for
    scale, y_dtype for output_dtype, and group_sizes. RuntimeError: another shape, dtype,
    group or option.
    """
    name = "npu_mm_all_reduce_base"
    check_group(name, hcom, None)
    check_turns(name, comm_turn, comm_mode)
    check(reduce_op == "sum", name, f"reduce_op must be sum, got {reduce_op!r}")
    check(x1.dim() in (2, 3), name, f"x1 must have 2 or 3 dimensions, got {x1.dim()}")
    check(x2.dim() == 2, name, f"x2 must have 2 dimensions, got {x2.dim()}")
    kinds: dict[str, Any] = {
        "x1_dtype": x1_dtype,
        "x2_dtype": x2_dtype,
        "pertoken_scale_dtype": pertoken_scale_dtype,
        "scale_dtype": dequant_scale_dtype,
        "output_dtype": y_dtype,
        "group_sizes": group_sizes,
    }
    weights = {
        "antiquant_scale": antiquant_scale,
        "antiquant_offset": antiquant_offset,
    }
    scales = {"dequant_scale": dequant_scale, "pertoken_scale": pertoken_scale}
    if is_small(x1, x1_dtype) or is_small(x2, x2_dtype):
        _check_none(name, "must be None for small floats", **weights)
        check(dequant_scale is not None, name, "dequant_scale is needed")
        assert dequant_scale is not None
        tables = dequant_scale, pertoken_scale, bias
        made = small_product(name, x1, x2, *tables, **kinds)
    else:
        _check_none(name, "must be None but for small floats", **kinds)
        rows = x1.flatten(0, -2)
        check_depth(name, rows, x2)
        check_shape(bias, name, "bias", (x2.shape[1],))
        if x1.dtype == torch.int8:
            _check_none(name, "must be None for x1 of int8", **weights)
            made = _dequantised(name, rows, x2, bias, dequant_scale, pertoken_scale)
        else:
            _check_none(name, "must be None for x1 of floats", **scales)
            factors = (antiquant_scale, antiquant_offset, antiquant_group_size)
            made = _of_floats(name, rows, x2, bias, *factors)
        made = made.reshape(*x1.shape[:-1], x2.shape[1])
    check_dtype(x3, name, "x3", (made.dtype,))
    check_shape(x3, name, "x3", tuple(made.shape))
    made = made if x3 is None else made + x3
    if comm_quant_scale_1 is None and comm_quant_scale_2 is None:
        return _summed(made, hcom)
    check(x1.dtype == torch.int8, name, "comm_quant_scale_1 is for x1 of int8")
    return _summed_as_int8(name, made, hcom, comm_quant_scale_1, comm_quant_scale_2)


def _summed(made: Tensor, hcom: str) -> Tensor:
    return waited(torch.ops._c10d_functional.all_reduce(made.contiguous(), "sum", hcom))


def _summed_as_int8(
    name: str, made: Tensor, hcom: str, first: Tensor | None, second: Tensor | None
) -> Tensor:
    """The sum over ranks of int8 times `first`, rounded to int8 times `second`."""
    columns = made.shape[-1]
    factors = []
    for what, scale in (("comm_quant_scale_1", first), ("comm_quant_scale_2", second)):
        check(scale is not None, name, f"{what} is needed beside the other one")
        check_dtype(scale, name, what, (made.dtype,))
        check_shape(scale, name, what, (columns,), (1, columns))
        assert scale is not None
        factors.append(scale.to(torch.float32).reshape(-1))
    steps = to_int8(made.to(torch.float32) / factors[0]).to(torch.int32)
    total = _summed(steps, hcom).to(torch.float32) * factors[0]
    return (to_int8(total / factors[1]).to(torch.float32) * factors[1]).to(made.dtype)


def _check_none(name: str, text: str, **given: Any) -> None:
    for what, value in given.items():
        check(value is None, name, f"{what} {text}")


def _of_floats(
    name: str,
    x1: Tensor,
    x2: Tensor,
    bias: Tensor | None,
    scale: Tensor | None,
    offset: Tensor | None,
    group: int,
) -> Tensor:
    check_dtype(x1, name, "x1", (*_HALF, torch.float32))
    check_dtype(bias, name, "bias", (x1.dtype,))
    made = torch.matmul(x1, _weight(name, x1, x2, scale, offset, group))
    return made if bias is None else made + bias


def _weight(
    name: str,
    x1: Tensor,
    x2: Tensor,
    scale: Tensor | None,
    offset: Tensor | None,
    group: int,
) -> Tensor:
    """x2 in x1's dtype."""
    if scale is None:
        check(offset is None, name, "antiquant_offset needs antiquant_scale")
        check(group == 0, name, f"antiquant_group_size must be 0, got {group}")
        check_dtype(x2, name, "x2", (x1.dtype,))
        return x2
    check_dtype(x2, name, "x2", (torch.int8,))
    rows, columns = x2.shape
    fits = group == 0 or (group >= 32 and group % 32 == 0 and group < rows)
    text = (
        f"antiquant_group_size must be 0, or a multiple of 32 below {rows}, got {group}"
    )
    check(fits, name, text)
    shapes = [(1,), (columns,), (1, columns)]
    if group:
        shapes = [(-(-rows // group), columns)]
    wide = x2.to(torch.float32)
    for what, table in (("antiquant_offset", offset), ("antiquant_scale", scale)):
        if table is None:
            continue
        check_dtype(table, name, what, (x1.dtype,))
        check_shape(table, name, what, *shapes)
        values = table.to(torch.float32)
        values = values.repeat_interleave(group, 0)[:rows] if group else values
        wide = wide + values if what == "antiquant_offset" else wide * values
    return wide.to(x1.dtype)


def _dequantised(
    name: str,
    x1: Tensor,
    x2: Tensor,
    bias: Tensor | None,
    scale: Tensor | None,
    per_token: Tensor | None,
) -> Tensor:
    check_dtype(x2, name, "x2", (torch.int8,))
    check(scale is not None, name, "dequant_scale is needed for x1 of int8")
    assert scale is not None
    check_dtype(scale, name, "dequant_scale", (*_SCALES, torch.bfloat16))
    columns = x2.shape[1]
    check_shape(scale, name, "dequant_scale", (1,), (columns,), (1, columns))
    check_dtype(bias, name, "bias", (torch.int32,))
    check_dtype(per_token, name, "pertoken_scale", (torch.float32,))
    check_shape(per_token, name, "pertoken_scale", (x1.shape[0],))
    kind = torch.bfloat16 if scale.dtype == torch.bfloat16 else torch.float16
    sums = integer_product(x1, x2)
    sums = sums if bias is None else sums + bias
    packed = scale.dtype == torch.int64
    factor = decode_scale(scale)[0] if packed else scale.to(torch.float32)
    values = sums.to(torch.float32) * factor.reshape(-1)
    values = values if per_token is None else values * per_token.unsqueeze(-1)
    return values.to(kind)
