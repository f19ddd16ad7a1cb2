"""Replaces PyTorch's functional collectives by operators that a program can call.

PyTorch has two operators: one starts the transfer, and a wait finds the transfer by the
tensor object. A program passes memory on without tensor objects, so the wait would find
nothing. Therefore the library `anabranch_c10d` has its own version of each collective.
`all_reduce` waits before it returns. `begin_all_reduce` returns a ticket; `finish`
waits for the ticket's transfer and returns the results. docs/design/distributed.md."""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
import torch.fx
from torch import Tensor
from torch._ops import OpOverload
from torch.utils._pytree import tree_leaves, tree_map_only

__all__ = [
    "NAMESPACE",
    "are_in",
    "begin",
    "finish",
    "is_collective",
    "is_own",
    "is_own_name",
    "is_wait",
    "portable_name",
    "wait_first",
    "waiting",
]

NAMESPACE = "_c10d_functional"
OWN = "anabranch_c10d"

_library = torch.library.Library(OWN, "DEF")
_library.define("finish(Tensor ticket) -> Tensor[]")

# Transfers that were begun and not finished, by ticket: the collective, its arguments
# and its results. PyTorch keeps no argument alive during a transfer.
_begun: dict[int, tuple[OpOverload, tuple[Any, ...], Any]] = {}
_tickets = itertools.count(1)


def is_wait(target: Any) -> bool:
    return (
        isinstance(target, OpOverload)
        and target.namespace == NAMESPACE
        and "wait_tensor" in target._schema.name
    )


def is_collective(target: Any) -> bool:
    return (
        isinstance(target, OpOverload)
        and target.namespace == NAMESPACE
        and not is_wait(target)
    )


def is_own(target: OpOverload) -> bool:
    """Whether the operator is this library's version of a collective."""
    return target.namespace == OWN


def is_own_name(name: str) -> bool:
    """Whether the operator of this name, in a graph or in a report, is this library's
    version of a collective."""
    return name.startswith((f"{OWN}.", f"{OWN}::"))


@functools.cache
def waiting(target: OpOverload) -> OpOverload:
    """This library's version of a collective, which returns when the transfer is done.
    The results are one new tensor, or several."""

    def run(*args: Any) -> Any:
        with _explained(target, args):
            wait = torch.ops._c10d_functional.wait_tensor
            return tree_map_only(Tensor, wait, target(*_with_local_name(args)))

    _, _, schema = str(target._schema).partition("::")
    return _define(schema, run)


@functools.cache
def begin(target: OpOverload) -> OpOverload:
    """The operator that begins a collective and returns a ticket for `finish`: i64[1]."""

    def run(*args: Any) -> Tensor:
        # The program may reuse the memory of an argument as soon as this function
        # returns.
        args = tree_map_only(Tensor, Tensor.clone, args)
        with _explained(target, args):
            results = target(*_with_local_name(args))
        ticket = next(_tickets)
        _begun[ticket] = target, args, results
        return torch.tensor([ticket])

    _, _, schema = str(target._schema).partition("::")
    arguments, _, _ = schema.rpartition("->")
    return _define(f"begin_{arguments}-> Tensor", run)


def finish() -> OpOverload:
    """The operator that takes a ticket and returns the results of its collective."""
    return torch.ops.anabranch_c10d.finish.default


def _finish(ticket: Tensor) -> list[Tensor]:
    target, args, results = _begun.pop(int(ticket))
    with _explained(target, args):
        return [
            torch.ops._c10d_functional.wait_tensor(result)
            for result in tree_leaves(results)
        ]


_library.impl("finish", _finish, "CompositeExplicitAutograd")


def _define(schema: str, run: Callable[..., Any]) -> OpOverload:
    _library.define(schema)
    signature = schema.partition("(")[0]
    _library.impl(signature, run, "CompositeExplicitAutograd")
    name, _, overload = signature.partition(".")
    return getattr(getattr(torch.ops.anabranch_c10d, name), overload or "default")


# Names of groups. PyTorch numbers groups in the order in which a process makes them. A
# package is for every process that has such a group, whatever its number.


def portable_name(group: Any) -> str:
    """The name of a group in a package: `ranks 0,1 #0` is the first group of these
    ranks."""
    import torch.distributed as dist

    if isinstance(group, str):
        group = dist.distributed_c10d._resolve_process_group(group)
    ranks = _ranks_of(group)
    alike = [other for other in _groups() if _ranks_of(other) == ranks]
    return f"ranks {ranks} #{alike.index(group)}"


def _with_local_name(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments of a collective with the group's name in this process, which is the
    last one."""
    *values, name = args
    if not isinstance(name, str) or not name.startswith("ranks "):
        return args
    return (*values, _local_name(name))


def _local_name(name: str) -> str:
    """The name of a group in this process."""
    _, ranks, number = name.split()
    alike = [group for group in _groups() if _ranks_of(group) == ranks]
    place = int(number.removeprefix("#"))
    if place >= len(alike):
        raise RuntimeError(
            f"this process has {len(alike)} process groups of the ranks {ranks}, and the"
            f" graph uses number {place} of them. Make the groups (init_process_group,"
            " init_device_mesh, new_group) before the call, as when it was compiled"
        )
    return alike[place].group_name


def _groups() -> list[Any]:
    import torch.distributed as dist

    return list(dist.distributed_c10d._world.pg_map)


def _ranks_of(group: Any) -> str:
    import torch.distributed as dist

    return ",".join(map(str, dist.get_process_group_ranks(group)))


def are_in(graph: dict[str, Any]) -> bool:
    """Whether the described graph has collectives."""
    return any(is_own_name(entry["op"]) for entry in graph["nodes"])


@contextlib.contextmanager
def _explained(target: OpOverload, args: Sequence[Any]) -> Iterator[None]:
    """Adds the collective, its group and advice to an error of a backend, which names
    neither."""
    try:
        yield
    except Exception as error:
        raise RuntimeError(
            f"the collective {_described(target, args)} failed: {error}\n  A rank that"
            " ended, that took longer than the group's timeout, or that called another"
            " collective or other sizes fails the others. TORCH_DISTRIBUTED_DEBUG=DETAIL"
            " compares what the ranks call."
        ) from error


def _described(target: OpOverload, args: Sequence[Any]) -> str:
    """The call as messages name it: all_reduce(f32[4, 64], 'sum') of the group '0' on
    rank 1 of 2"""
    import torch.distributed as dist

    name = target._schema.name.partition("::")[2]
    *said, group = (_spelled(value) for value in args)
    text = f"{name}({', '.join(said)}) of the process group {group}"
    if not dist.is_initialized():
        return f"{text}, but torch.distributed is not initialised,"
    return f"{text} on rank {dist.get_rank()} of {dist.get_world_size()}"


def _spelled(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_spelled, value))}]"
    return getattr(value, "group_name", None) or repr(value)


def wait_first(
    executable: Callable[[list[Any]], Any], positions: Sequence[int]
) -> Callable[[list[Any]], Any]:
    """Wraps the executable: a call first waits for the arguments at `positions`, which
    collectives of other graphs may still be writing."""

    def call(arguments: list[Any]) -> Any:
        for position in positions:
            torch.ops._c10d_functional.wait_tensor(arguments[position])
        return executable(arguments)

    call._boxed_call = True  # type: ignore[attr-defined]
    return call
