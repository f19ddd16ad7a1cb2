"""Products of small floats, of int8 and of floats, joined to a collective.

After the schemas of op-plugin's operators npu_quant_mm_reduce_scatter and
npu_all_gather_quant_mm. Ranks send what they computed in the dtype of the result."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..checks import check, check_dtype, check_shape
from ..definition import npu_operator
from ..element_types import scalar_type
from ..schema import Reserved
from .rank_groups import check_gather, check_scatter, gathered, scattered
from .rank_products import scaled_product
from .small_products import E8M0_BYTES, is_small, small_product

_RESULTS = (torch.float16, torch.bfloat16, torch.float32)
_PLAIN = (torch.float16, torch.bfloat16, torch.float32, torch.int8)


def _check_options(name: str, group_sizes: list[int] | None) -> None:
    known = group_sizes is None or list(group_sizes) in ([0, 0, 0], [1, 1, 32])
    text = "group_sizes must be None, zeros, or [1, 1, 32] for scales of float8_e8m0fnu"
    check(known, name, f"{text}, got {group_sizes}")


def _product(
    name: str,
    x1: Tensor,
    x2: Tensor,
    bias: Tensor | None,
    scales: tuple[Tensor | None, Tensor | None],
    numbers: tuple[int | None, int | None, int | None, int | None],
    y_dtype: int | None,
) -> Tensor:
    """x1 @ x2 plus bias with the scales of x1 and of x2. `numbers`: x1_dtype, x2_dtype,
    x1_scale_dtype, x2_scale_dtype."""
    for what, operand in (("self", x1), ("x2", x2)):
        text = f"{what} must have 2 dimensions, got {operand.dim()}"
        check(operand.dim() == 2, name, text)
    rows, columns = scales
    first, second, of_rows, of_columns = numbers
    if is_small(x1, first) or is_small(x2, second):
        check(columns is not None, name, "x2_scale is needed for small floats")
        check(y_dtype is not None, name, "y_dtype is needed for small floats")
        assert columns is not None
        told: dict[str, Any] = {
            "output_dtype": y_dtype,
            "x1_dtype": first,
            "x2_dtype": second,
            "pertoken_scale_dtype": of_rows,
            "scale_dtype": of_columns,
        }
        return small_product(name, x1, x2, columns, rows, bias, **told)
    none = all(number is None for number in numbers)
    check(none, name, "x1_scale_dtype and x2_scale_dtype are for small floats")
    check_dtype(x1, name, "self", _PLAIN)
    check_dtype(x2, name, "x2", (x1.dtype,))
    kind = None
    if y_dtype is not None:
        kind = scalar_type(y_dtype, name, "y_dtype", _RESULTS)
    return scaled_product(name, x1, x2, bias, rows, columns, kind)


@npu_operator
def npu_quant_mm_reduce_scatter(
    self: Tensor,
    x2: Tensor,
    hcom: str,
    world_size: int,
    *,
    reduce_op: str = "sum",
    bias: Tensor | None = None,
    x1_scale: Tensor | None = None,
    x2_scale: Tensor | None = None,
    quant_scale: Reserved[Tensor | None] = None,
    block_size: Reserved[int] = 0,
    comm_turn: int = 0,
    group_sizes: list[int] | None = None,
    amax_output: Reserved[bool] = False,
    y_dtype: int | None = None,
    x1_dtype: int | None = None,
    x2_dtype: int | None = None,
    x1_scale_dtype: int | None = None,
    x2_scale_dtype: int | None = None,
    comm_mode: str | None = None,
) -> tuple[Tensor, Tensor]:
    """This rank's rows of the sum over ranks of self @ x2 plus bias, (m / world_size, n),
    and an empty tensor.

    self, x2  (m, k) and (k, n): floats, int8, or small floats as npu_quant_matmul takes them
    hcom      the name of a group of ranks, and world_size its size
    x1_scale, x2_scale  for int8 those of npu_mm_reduce_scatter_base, for small floats the
              pertoken_scale and the scale of npu_quant_matmul
    y_dtype   of the result; needed for small floats

    RuntimeError: another shape, dtype, group or option.
    """
    name = "npu_quant_mm_reduce_scatter"
    size = check_scatter(name, hcom, world_size, reduce_op, comm_turn, comm_mode)
    _check_options(name, group_sizes)
    numbers = x1_dtype, x2_dtype, x1_scale_dtype, x2_scale_dtype
    made = _product(name, self, x2, bias, (x1_scale, x2_scale), numbers, y_dtype)
    out = scattered(name, made, size, hcom)
    return out, out.new_empty(0, dtype=torch.float32)


@npu_operator
def npu_all_gather_quant_mm(
    self: Tensor,
    x2: Tensor,
    hcom: str,
    world_size: int,
    *,
    bias: Tensor | None = None,
    x1_scale: Tensor | None = None,
    x2_scale: Tensor | None = None,
    quant_scale: Reserved[Tensor | None] = None,
    block_size: Reserved[int] = 0,
    gather_index: int = 0,
    gather_output: bool = True,
    comm_turn: int = 0,
    group_sizes: list[int] | None = None,
    amax_output: Reserved[bool] = False,
    y_dtype: int | None = None,
    x1_dtype: int | None = None,
    x2_dtype: int | None = None,
    x1_scale_dtype: int | None = None,
    x2_scale_dtype: int | None = None,
    comm_mode: str | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """The rows of all ranks @ x2 plus bias, these rows, and an empty tensor.

    self, x2  (m, k) and (k, n): floats, int8, or small floats as npu_quant_matmul takes them
    hcom      the name of a group of ranks, and world_size its size
    x1_scale  of this rank's rows, which ranks gather too; of one element, it is the same on
              all ranks
    x2_scale  for int8 that of npu_all_gather_base_mm, for small floats the scale of
              npu_quant_matmul
    gather_output  whether the rows are returned; else an empty tensor
    y_dtype   of the result; needed for small floats

    RuntimeError: another shape, dtype, group or option.
    """
    name = "npu_all_gather_quant_mm"
    size = check_gather(name, hcom, world_size, gather_index, comm_turn, comm_mode)
    _check_options(name, group_sizes)
    rows = gathered(self, size, hcom)
    scale = x1_scale
    if scale is not None and tuple(scale.shape) != (1,):
        if scale.dtype not in E8M0_BYTES:
            shapes = (self.shape[0],), (self.shape[0], 1)
            check_shape(scale, name, "x1_scale", *shapes)
        scale = gathered(scale, size, hcom)
    numbers = x1_dtype, x2_dtype, x1_scale_dtype, x2_scale_dtype
    made = _product(name, rows, x2, bias, (scale, x2_scale), numbers, y_dtype)
    kept = rows if gather_output else rows.new_empty(0)
    return made, kept, made.new_empty(0, dtype=torch.float32)
