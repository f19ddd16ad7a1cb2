"""torch_npu.distributed: collectives whose ranks have different numbers of rows.

Every rank's rows are filled up to the longest, which even collectives take; graphs hold
them as they hold PyTorch's own.
"""

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
    """The rows of all ranks' inputs behind one another, in `output`; rank r gives
    `output_split_sizes[r]` of them. ValueError for `async_op`; AssertionError for sizes
    that don't fit."""
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
    """The reduction of all ranks' inputs, of which rank r gets `input_split_sizes[r]`
    rows in `output`. Raises as all_gather_into_tensor_uneven does."""
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
    """Rows of each rank; without sizes all have the same number."""
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
    """The split size of this rank, which the tensor on its side must have."""
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
