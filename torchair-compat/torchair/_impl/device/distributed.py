"""torch_npu.distributed: collectives whose ranks have different numbers of rows.

The rows of each rank are filled up to the most of any rank; then PyTorch's even
collectives take them. Graphs contain these collectives like PyTorch's own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch import Tensor

__all__ = ["all_gather_into_tensor_uneven", "reduce_scatter_tensor_uneven"]

_REDUCTIONS = {
    dist.ReduceOp.SUM: "sum",
    dist.ReduceOp.AVG: "avg",
    dist.ReduceOp.MIN: "min",
    dist.ReduceOp.MAX: "max",
    dist.ReduceOp.PRODUCT: "product",
}


def all_gather_into_tensor_uneven(
    output: Tensor,
    input: Tensor,
    output_split_sizes: Sequence[int] | None = None,
    group: Any = None,
    async_op: bool = False,
) -> None:
    """Gathers the rows of all ranks, one after another.

    output              [sum of rows, ...], which is written
    input               [rows of this rank, ...]
    output_split_sizes  the rows of each rank; None: all have the same number

    ValueError: `async_op` is set. AssertionError: the sizes do not fit.
    """
    group = _group(group, async_op)
    sizes = _sizes(output, output_split_sizes, group)
    _rows_of_rank("input", input, sizes, group)
    most = max(sizes)
    gathered = functional.all_gather_tensor(_filled(input, most), 0, group)
    parts = gathered.split(most)
    output.copy_(torch.cat([part[:size] for part, size in zip(parts, sizes)]))


def reduce_scatter_tensor_uneven(
    output: Tensor,
    input: Tensor,
    input_split_sizes: Sequence[int] | None = None,
    op: Any = dist.ReduceOp.SUM,
    group: Any = None,
    async_op: bool = False,
) -> None:
    """Reduces the rows of all ranks, and gives each rank a part.

    output             [rows of this rank, ...], which is written
    input              [sum of rows, ...]
    input_split_sizes  the rows of each rank; None: all have the same number

    Raises as all_gather_into_tensor_uneven does.
    """
    group = _group(group, async_op)
    sizes = _sizes(input, input_split_sizes, group)
    mine = _rows_of_rank("output", output, sizes, group)
    if op not in _REDUCTIONS:
        raise ValueError(f"reduce_scatter_tensor_uneven: no such reduction here: {op}")
    most = max(sizes)
    padded = torch.cat([_filled(part, most) for part in input.split(sizes)])
    reduced = functional.reduce_scatter_tensor(padded, _REDUCTIONS[op], 0, group)
    output.copy_(reduced[:mine])


def _group(group: Any, async_op: bool) -> Any:
    if async_op:
        raise ValueError(
            "Can't remap async version of inplace op to functional collective"
        )
    return dist.group.WORLD if group is None else group


def _sizes(tensor: Tensor, sizes: Sequence[int] | None, group: Any) -> list[int]:
    """The rows of each rank; without sizes, all have the same number."""
    ranks, rows = dist.get_world_size(group), tensor.shape[0]
    if sizes is None:
        if rows % ranks != 0:
            raise AssertionError(
                f"{rows} rows can't be split evenly among {ranks} ranks"
            )
        return [rows // ranks] * ranks
    if len(sizes) != ranks:
        raise AssertionError(f"there are {len(sizes)} split sizes for {ranks} ranks")
    if sum(sizes) != rows or min(sizes) < 0:
        raise AssertionError("Split sizes sum does not match total dim 0 size")
    return list(sizes)


def _rows_of_rank(side: str, tensor: Tensor, sizes: Sequence[int], group: Any) -> int:
    """The rows of this rank, which the tensor must have."""
    mine = sizes[dist.get_rank(group)]
    if tensor.shape[0] != mine:
        raise AssertionError(
            f"the {side} has {tensor.shape[0]} rows, and the split size of this rank is"
            f" {mine}"
        )
    return mine


def _filled(rows: Tensor, most: int) -> Tensor:
    more = rows.new_zeros(most - rows.shape[0], *rows.shape[1:])
    return torch.cat([rows, more])
