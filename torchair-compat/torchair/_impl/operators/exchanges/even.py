"""Products joined to an exchange of equal blocks among ranks.

After Ascend's API reference of torch_npu, pages npu_all_to_all_matmul and
npu_matmul_all_to_all. Ranks send what they computed in the dtype of the result."""

from __future__ import annotations

import torch
from torch import Tensor

from ..checks import check, check_dtype, check_shape
from ..definition import npu_operator
from ..products.rank_groups import check_group, check_turns, exchanged, side_by_side
from ..products.rank_products import check_depth, check_operands

_HALF = (torch.float16, torch.bfloat16)


@npu_operator
def npu_all_to_all_matmul(
    x1: Tensor,
    x2: Tensor,
    hcom: str,
    world_size: int,
    bias: Tensor | None = None,
    all2all_axes: list[int] | None = None,
    all2all_out_flag: bool = True,
    comm_mode: str | None = None,
) -> tuple[Tensor, Tensor]:
    """Gives each rank an equal part of the rows of x1 (m, h) of every rank, side by side:
    (m / ranks, h * ranks). Returns these rows @ x2 plus bias, and the rows.

    x2    (h * ranks, n) in x1's dtype
    bias  (n,): float32 for bfloat16, else x1's dtype
    all2all_axes      [-2, -1] or None
    all2all_out_flag  whether the rows are returned; else an empty tensor

    RuntimeError: another shape, dtype, group or option.
    """
    name = "npu_all_to_all_matmul"
    size = check_group(name, hcom, world_size)
    _check_exchange(name, x1, x2, bias, all2all_axes, [-2, -1], comm_mode)
    m = x1.shape[0]
    check(m % size == 0, name, f"{size} ranks must divide the rows of x1, {m}")
    rows = side_by_side(x1, size, hcom)
    check_depth(name, rows, x2)
    made = _plus(torch.matmul(rows, x2), bias)
    return made, rows if all2all_out_flag else rows.new_empty(0)


@npu_operator
def npu_matmul_all_to_all(
    x1: Tensor,
    x2: Tensor,
    hcom: str,
    world_size: int,
    bias: Tensor | None = None,
    all2all_axes: list[int] | None = None,
    comm_mode: str | None = None,
) -> Tensor:
    """Gives each rank an equal part of the columns of x1 @ x2 plus bias of every rank, one
    below the other: (m * ranks, n / ranks).

    x1, x2  (m, k) and (k, n), in one dtype
    bias    (n,): float32 for bfloat16, else x1's dtype
    all2all_axes  [-1, -2] or None

    RuntimeError: another shape, dtype, group or option.
    """
    name = "npu_matmul_all_to_all"
    size = check_group(name, hcom, world_size)
    _check_exchange(name, x1, x2, bias, all2all_axes, [-1, -2], comm_mode)
    check_depth(name, x1, x2)
    columns = x2.shape[1]
    even = columns % size == 0
    check(even, name, f"{size} ranks must divide the columns of x2, {columns}")
    made = _plus(torch.matmul(x1, x2), bias).unflatten(-1, (size, -1))
    return exchanged(made.transpose(0, 1), hcom).flatten(0, 1)


def _check_exchange(
    name: str,
    x1: Tensor,
    x2: Tensor,
    bias: Tensor | None,
    axes: list[int] | None,
    known: list[int],
    comm_mode: str | None,
) -> None:
    check_turns(name, 0, comm_mode)
    text = f"all2all_axes must be {known} or None, got {axes}"
    check(axes is None or list(axes) == known, name, text)
    check_operands(name, "x1", x1, x2)
    check_dtype(x1, name, "x1", (*_HALF, torch.float32))
    kinds = (x1.dtype, torch.float32) if x1.dtype == torch.bfloat16 else (x1.dtype,)
    check_dtype(bias, name, "bias", kinds)
    check_shape(bias, name, "bias", (x2.shape[1],))


def _plus(made: Tensor, bias: Tensor | None) -> Tensor:
    return made if bias is None else (made + bias).to(made.dtype)
