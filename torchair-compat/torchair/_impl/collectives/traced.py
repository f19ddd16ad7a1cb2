"""Lets Dynamo trace collectives that PyTorch leaves out of graphs: `broadcast`,
`all_to_all` of lists, `all_gather` of tensors of different sizes, `send` and `recv`,
and those that gather into or scatter from a tensor of another shape.

Dynamo has a table that says which function to trace instead of a collective. This
module adds entries to it, so eager code still calls PyTorch's own functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch import Tensor
from torch.fx.node import has_side_effect

__all__ = ["install"]

_library = torch.library.Library("air_c10d", "DEF")


def _group(name: str) -> Any:
    return dist.distributed_c10d._resolve_process_group(name)


def _define_send() -> None:
    def send(x: Tensor, rank: int, tag: int, group: str) -> None:
        dist.send(x.contiguous(), group=_group(group), tag=tag, group_dst=rank)

    _library.define("send(Tensor x, int rank, int tag, str group) -> ()")
    _library.impl("send", send, "CompositeExplicitAutograd")
    torch.library.register_fake("air_c10d::send", lambda *_: None, lib=_library)
    has_side_effect(torch.ops.air_c10d.send.default)


def _define_recv() -> None:
    def recv(like: Tensor, rank: int, tag: int, group: str) -> Tensor:
        result = torch.empty_like(like, memory_format=torch.contiguous_format)
        dist.recv(result, group=_group(group), tag=tag, group_src=rank)
        return result

    def shape(like: Tensor, *_: Any) -> Tensor:
        return torch.empty_like(like, memory_format=torch.contiguous_format)

    _library.define("recv(Tensor like, int rank, int tag, str group) -> Tensor")
    _library.impl("recv", recv, "CompositeExplicitAutograd")
    torch.library.register_fake("air_c10d::recv", shape, lib=_library)
    has_side_effect(torch.ops.air_c10d.recv.default)


_define_send()
_define_recv()


def _rank(group: Any, rank: int | None, group_rank: int | None, what: str) -> int:
    """The rank in the group, given as that or as the global rank. ValueError: both or
    none are given."""
    if (rank is None) == (group_rank is None):
        raise ValueError(f"give one of {what} and group_{what}")
    if rank is None:
        assert group_rank is not None
        return group_rank
    return dist.get_process_group_ranks(group).index(rank)


def _or_world(group: Any) -> Any:
    return dist.group.WORLD if group is None else group


# The functions that Dynamo traces. They are attributes of PyTorch's module, where
# guards look them up.


def _torchair_broadcast(
    tensor: Tensor,
    src: int | None = None,
    group: Any = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> None:
    group = _or_world(group)
    source = _rank(group, src, group_src, "src")
    tensor.copy_(functional.broadcast(tensor.contiguous(), source, group))


def _torchair_all_to_all(
    output_tensor_list: Sequence[Tensor],
    input_tensor_list: Sequence[Tensor],
    group: Any = None,
    async_op: bool = False,
) -> None:
    group = _or_world(group)
    ranks = dist.get_world_size(group)
    if len(output_tensor_list) != ranks or len(input_tensor_list) != ranks:
        raise AssertionError("Tensor list input and rank size mismatch")
    flat = torch.cat([part.reshape(-1) for part in input_tensor_list])
    given = [part.numel() for part in input_tensor_list]
    wanted = [part.numel() for part in output_tensor_list]
    found = functional.all_to_all_single(flat, wanted, given, group)
    for output, part in zip(output_tensor_list, found.split(wanted)):
        output.copy_(part.reshape(output.shape))


def _torchair_all_gather(
    tensor_list: Sequence[Tensor],
    tensor: Tensor,
    group: Any = None,
    async_op: bool = False,
) -> None:
    group = _or_world(group)
    if len(tensor_list) != dist.get_world_size(group):
        raise AssertionError("Tensor list input and rank size mismatch")
    if all(output.numel() == tensor_list[0].numel() for output in tensor_list):
        rows = functional.all_gather_tensor(tensor.contiguous().reshape(-1), 0, group)
        for output, part in zip(tensor_list, rows.split(tensor.numel())):
            output.copy_(part.reshape(output.shape))
        return
    mine = dist.get_rank(group)
    for rank, output in enumerate(tensor_list):
        sent = tensor if rank == mine else output
        found = functional.broadcast(sent.contiguous(), rank, group)
        output.copy_(found.reshape(output.shape))


def _torchair_all_gather_into_tensor(
    output_tensor: Tensor,
    input_tensor: Tensor,
    group: Any = None,
    async_op: bool = False,
) -> None:
    group = _or_world(group)
    ranks = dist.get_world_size(group)
    _fitting("all_gather_into_tensor", output_tensor, input_tensor, ranks)
    if _joins(output_tensor, input_tensor):
        functional.all_gather_tensor_inplace(output_tensor, input_tensor, group)
        return
    rows = functional.all_gather_tensor(input_tensor.reshape(-1), 0, group)
    output_tensor.copy_(rows.view(output_tensor.shape))


def _torchair_reduce_scatter_tensor(
    output: Tensor,
    input: Tensor,
    op: str = "sum",
    group: Any = None,
    async_op: bool = False,
) -> None:
    group = _or_world(group)
    ranks = dist.get_world_size(group)
    _fitting("reduce_scatter_tensor", input, output, ranks)
    if _joins(input, output):
        functional.reduce_scatter_tensor_inplace(output, input, op, group)
        return
    found = functional.reduce_scatter_tensor(input.reshape(-1), op, 0, group)
    output.copy_(found.view(output.shape))


def _fitting(name: str, whole: Tensor, part: Tensor, ranks: int) -> None:
    if whole.numel() != ranks * part.numel():
        raise ValueError(
            f"the shapes {tuple(whole.shape)} and {tuple(part.shape)} of {ranks} ranks"
            f" are not compatible for {name}"
        )


def _joins(whole: Tensor, part: Tensor) -> bool:
    """Whether the parts of all ranks lie in the whole one after the other, along the
    first dimension."""
    same = whole.dim() == part.dim() > 0
    return same and whole.shape[1:] == part.shape[1:]


def _torchair_send(
    tensor: Tensor,
    dst: int | None = None,
    group: Any = None,
    tag: int = 0,
    group_dst: int | None = None,
) -> None:
    group = _or_world(group)
    rank = _rank(group, dst, group_dst, "dst")
    name = functional._resolve_group_name(group)
    torch.ops.air_c10d.send(tensor, rank, tag, name)


def _torchair_recv(
    tensor: Tensor,
    src: int | None = None,
    group: Any = None,
    tag: int = 0,
    group_src: int | None = None,
) -> int:
    group = _or_world(group)
    rank = _rank(group, src, group_src, "src")
    name = functional._resolve_group_name(group)
    tensor.copy_(torch.ops.air_c10d.recv(tensor, rank, tag, name))
    return dist.get_process_group_ranks(group)[rank]


def install() -> None:
    """Adds the collectives to Dynamo's table."""
    table = functional.traceable_collective_remaps
    for name, traced in (
        ("broadcast", _torchair_broadcast),
        ("all_to_all", _torchair_all_to_all),
        ("all_gather", _torchair_all_gather),
        ("all_gather_into_tensor", _torchair_all_gather_into_tensor),
        ("all_gather_single", _torchair_all_gather_into_tensor),
        ("reduce_scatter_tensor", _torchair_reduce_scatter_tensor),
        ("reduce_scatter_single", _torchair_reduce_scatter_tensor),
        ("send", _torchair_send),
        ("recv", _torchair_recv),
    ):
        setattr(functional, traced.__name__, traced)
        if hasattr(dist, name):  # versions of PyTorch have one of two names
            table[getattr(dist, name)] = traced
