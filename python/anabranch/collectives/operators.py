"""Replaces PyTorch's functional collectives by operators that a program can call.

PyTorch has two operators: one starts the transfer, and a wait finds the transfer by the
tensor object. A program passes memory on without tensor objects, so the wait would find
nothing. Therefore the library `anabranch_c10d` has its own version of each collective.
`all_reduce` waits before it returns. `begin_all_reduce` returns a ticket; `finish`
waits for the ticket's transfer and returns the results. docs/design/distributed.md."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.utils._pytree import tree_leaves, tree_map_only

from .failures import explained
from .groups import with_local_name

__all__ = [
    "NAMESPACE",
    "OWN",
    "are_in",
    "begin",
    "finish",
    "is_collective",
    "is_own",
    "is_own_name",
    "is_wait",
    "wait_first",
    "waiting",
]

NAMESPACE = "_c10d_functional"
OWN = "anabranch_c10d"

# AOTAutograd has taken gradients apart before a program has its operators. PyTorch's
# functions for them take longer than the collective of a few numbers.
_BelowAutograd = torch._C._AutoDispatchBelowAutograd

_library = torch.library.Library(OWN, "DEF")
_library.define("finish(Tensor ticket) -> Tensor[]")

# Transfers that were begun and not finished, by ticket: the collective, its arguments
# and its results. PyTorch keeps no argument alive during a transfer.
_begun: dict[int, tuple[OpOverload, tuple[Any, ...], Any]] = {}
_tickets = itertools.count(1)


def is_wait(target: Any) -> bool:
    """Whether a node of this target waits for a collective."""
    return (
        isinstance(target, OpOverload)
        and target.namespace == NAMESPACE
        and "wait_tensor" in target._schema.name
    )


def is_collective(target: Any) -> bool:
    """Whether a node of this target starts one of PyTorch's functional collectives."""
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


def are_in(graph: dict[str, Any]) -> bool:
    """Whether the described graph has collectives."""
    return any(is_own_name(entry["op"]) for entry in graph["nodes"])


@functools.cache
def waiting(target: OpOverload) -> OpOverload:
    """This library's version of a collective, which returns when the transfer is done.
    The results are one new tensor, or several."""

    def run(*args: Any) -> Any:
        with explained(target, args), _BelowAutograd():
            results = target(*with_local_name(args))
            if isinstance(results, Tensor):
                return _wait(results)
            return [_wait(result) for result in results]

    _, _, schema = str(target._schema).partition("::")
    return _define(schema, run)


@functools.cache
def begin(target: OpOverload) -> OpOverload:
    """The operator that begins a collective and returns a ticket for `finish`: i64[1]."""

    def run(*args: Any) -> Tensor:
        # The program may reuse the memory of an argument as soon as this function
        # returns.
        args = tree_map_only(Tensor, Tensor.clone, args)
        with explained(target, args), _BelowAutograd():
            results = target(*with_local_name(args))
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
    with explained(target, args), _BelowAutograd():
        return [_wait(result) for result in tree_leaves(results)]


_library.impl("finish", _finish, "CompositeExplicitAutograd")


def _wait(result: Tensor) -> Tensor:
    return torch.ops._c10d_functional.wait_tensor.default(result)


def _define(schema: str, run: Callable[..., Any]) -> OpOverload:
    _library.define(schema)
    signature = schema.partition("(")[0]
    _library.impl(signature, run, "CompositeExplicitAutograd")
    name, _, overload = signature.partition(".")
    return getattr(getattr(torch.ops.anabranch_c10d, name), overload or "default")


def wait_first(
    executable: Callable[[list[Any]], Any], positions: Sequence[int]
) -> Callable[[list[Any]], Any]:
    """Wraps the executable: a call first waits for the arguments at `positions`, which
    collectives of other graphs may still be writing."""

    def call(arguments: list[Any]) -> Any:
        for position in positions:
            _wait(arguments[position])
        return executable(arguments)

    call._boxed_call = True  # type: ignore[attr-defined]
    return call
