"""Makes "hccl", the backend's name on NPUs, a name of gloo in torch.distributed.

HCCL asks for tensors of fitting sizes, gloo for equal shapes. In groups of the name
"hccl", PyTorch's collectives take all that HCCL takes: shapes that hold as many
elements, and lists of tensors of different sizes."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

__all__ = ["install"]


def _make(given: Any, _: Any) -> Any:
    options = dist.ProcessGroupGloo._Options()
    options._devices = [dist.ProcessGroupGloo.create_default_device()]
    options._timeout = given.timeout
    options.group_name = given.group_id
    return dist.ProcessGroupGloo(
        given.store, given.group_rank, given.group_size, options
    )


def _name(backend: Any, rank: int, *_: Any) -> str:
    """The name of the group that operators of torch_npu get."""
    return str(backend.options.group_name)


def install() -> None:
    """Registers the backend, for init_process_group("hccl"). Its groups have
    `get_hccl_comm_name(rank)`."""
    if not dist.is_available() or not hasattr(dist, "ProcessGroupGloo"):
        return
    dist.ProcessGroupGloo.get_hccl_comm_name = _name
    if "hccl" in dist.Backend.backend_list:
        return
    dist.Backend.register_backend("hccl", _make, extended_api=True, devices=["cpu"])
    for name, own in _OWN.items():
        if hasattr(dist.ProcessGroup, name):
            setattr(dist.ProcessGroup, name, _in_hccl(name, own))


def _in_hccl(name: str, own: Callable[..., Any]) -> Callable[..., Any]:
    """A method of process groups that calls `own` with PyTorch's method in groups of
    the name "hccl", or of one beside others ("cpu:gloo,npu:hccl")."""
    original = getattr(dist.ProcessGroup, name)

    @functools.wraps(original)
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        backend, _ = dist.distributed_c10d._world.pg_map.get(self, ("", None))
        if "hccl" not in backend:
            return original(self, *args, **kwargs)
        return own(functools.partial(original, self), self, *args, **kwargs)

    return method


def _flat(call: Any, group: Any, output: Tensor, given: Tensor, *options: Any) -> Any:
    """Gathers to, or scatters from, tensors of any shape. Sizes that do not fit are the
    original's error."""
    if not output.is_contiguous():
        return call(output, given, *options)
    return call(output.view(-1), given.contiguous().view(-1), *options)


def _all_gather(
    call: Any, group: Any, outputs: Any, given: Any, *options: Any, **more: Any
) -> Any:
    if len(outputs) != 1 or isinstance(outputs[0], Tensor) or len(given) != 1:
        return call(outputs, given, *options, **more)
    (parts,), (mine,) = outputs, given
    if not all(part.is_contiguous() for part in parts):
        return call(outputs, given, *options, **more)
    if len({part.numel() for part in parts}) == 1:
        flat = [part.view(-1) for part in parts]
        return call([flat], [mine.contiguous().view(-1)], *options, **more)
    parts[group.rank()].copy_(mine.view_as(parts[group.rank()]))
    work = None
    for rank, part in enumerate(parts):
        one = dist.BroadcastOptions()
        one.rootRank = rank
        work = group.broadcast([part], one)
        work.wait()
    return work


def _all_to_all(
    call: Any, group: Any, outputs: Sequence[Tensor], given: Sequence[Tensor], *_: Any
) -> Any:
    """Exchanges one flat tensor, in every rank: a rank does not know whether the sizes
    of others are equal."""
    flat = torch.cat([part.reshape(-1) for part in given])
    sizes = [part.numel() for part in outputs]
    found = flat.new_empty(sum(sizes))
    work = group.alltoall_base(found, flat, sizes, [part.numel() for part in given])
    work.wait()
    for output, part in zip(outputs, found.split(sizes)):
        output.copy_(part.view(output.shape))
    return work


_OWN: dict[str, Callable[..., Any]] = {
    "allgather": _all_gather,
    "alltoall": _all_to_all,
    # names of one method in versions of PyTorch
    "all_gather_single": _flat,
    "_allgather_base": _flat,
    "reduce_scatter_single": _flat,
    "_reduce_scatter_base": _flat,
}
