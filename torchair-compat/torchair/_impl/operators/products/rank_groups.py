"""What products of several ranks share: checks of groups, and collectives of rows."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor

from ..checks import check

_MODES = (None, "ai_cpu", "aiv", "ccu")


def check_group(
    name: str, hcom: str, world_size: int | None, what: str = "world_size"
) -> int:
    """The size of the group. RuntimeError: there is no such group, or its size differs."""
    size = dist.distributed_c10d._resolve_process_group(hcom).size()
    text = f"{what} must be that of {hcom!r}, {size}, got {world_size}"
    check(world_size in (None, size), name, text)
    return size


def check_turns(name: str, comm_turn: int, comm_mode: str | None) -> None:
    check(comm_turn == 0, name, f"comm_turn must be 0, got {comm_turn}")
    text = f"comm_mode must be one of {_MODES}, got {comm_mode!r}"
    check(comm_mode in _MODES, name, text)


def check_gather(
    name: str,
    hcom: str,
    world_size: int,
    gather_index: int,
    comm_turn: int,
    comm_mode: str | None,
) -> int:
    """Checks the options of a product of rows that ranks gather; the size of the group."""
    size = check_group(name, hcom, world_size)
    check_turns(name, comm_turn, comm_mode)
    check(gather_index == 0, name, f"gather_index must be 0, got {gather_index}")
    return size


def check_scatter(
    name: str,
    hcom: str,
    world_size: int,
    reduce_op: str,
    comm_turn: int,
    comm_mode: str | None,
) -> int:
    """Checks the options of a product that ranks add up; the size of the group."""
    size = check_group(name, hcom, world_size)
    check_turns(name, comm_turn, comm_mode)
    check(reduce_op == "sum", name, f"reduce_op must be sum, got {reduce_op!r}")
    return size


def waited(sent: Tensor) -> Tensor:
    return torch.ops._c10d_functional.wait_tensor(sent)


def gathered(x: Tensor, size: int, hcom: str) -> Tensor:
    operators = torch.ops._c10d_functional
    # As bytes: gloo does not send every dtype.
    sent = x.contiguous().view(torch.uint8)
    found = waited(operators.all_gather_into_tensor(sent, size, hcom))
    return found.view(x.dtype)


def scattered(name: str, made: Tensor, size: int, hcom: str) -> Tensor:
    """This rank's rows of the sum of `made` over the ranks. RuntimeError: the group's size
    does not divide the rows."""
    rows = made.shape[0]
    check(rows % size == 0, name, f"{size} ranks must divide the rows of self, {rows}")
    sum_rows = torch.ops._c10d_functional.reduce_scatter_tensor
    return waited(sum_rows(made.contiguous(), "sum", size, hcom))


def exchanged(blocks: Tensor, hcom: str) -> Tensor:
    """Sends block i (ranks, ...) to rank i, and receives one from each."""
    ranks = blocks.shape[0]
    sent = blocks.contiguous().view(torch.uint8).reshape(ranks, -1)
    ones = [1] * ranks
    operators = torch.ops._c10d_functional
    found = waited(operators.all_to_all_single(sent, ones, ones, hcom))
    return found.view(blocks.dtype).reshape(blocks.shape)


def side_by_side(rows: Tensor, size: int, hcom: str) -> Tensor:
    """Gives each rank an equal part of the rows (m, h) of all, side by side: (m / size,
    h * size)."""
    parts = rows.reshape(size, -1, rows.shape[1])
    return exchanged(parts, hcom).transpose(0, 1).flatten(1)


def exchanged_rows(
    rows: Tensor, send: list[int], receive: list[int], hcom: str
) -> Tensor:
    """Sends the next send[i] rows to rank i, and gets receive[i] rows from each."""
    sent = rows.contiguous().view(torch.uint8).flatten(1)
    operators = torch.ops._c10d_functional
    found = waited(operators.all_to_all_single(sent, receive, send, hcom))
    return found.view(rows.dtype).reshape(sum(receive), *rows.shape[1:])
