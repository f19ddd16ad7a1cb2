"""Marks on the nodes of a graph: streams, waits and super kernels."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable

import torch
import torch.fx
from torch._ops import OpOverload

from .. import dynamo_lock
from ..marks import mark_order, scope, super_kernel, unbroken

__all__ = [
    "RECORD",
    "SUPER_KERNEL_OPTIONS",
    "WAIT",
    "WAIT_EVENT",
    "WAIT_TAG",
    "Marks",
    "add_mark_resolver",
    "drop_super_kernel",
    "is_order_operator",
    "is_own_trace",
    "is_traced",
    "is_wait_result",
    "read_super_kernel_option",
    "set_marks",
    "stream_of",
    "unbroken_scope",
    "wait_if_computed",
]

WAIT, RECORD = scope.WAIT, scope.RECORD
WAIT_EVENT, WAIT_TAG = scope.WAIT_EVENT, scope.WAIT_TAG

SUPER_KERNEL_OPTIONS = super_kernel.NAMES


@dataclasses.dataclass(frozen=True)
class Marks:
    """The marks that scopes leave on one operator; None where no scope says anything.

    `super_kernel` "" takes the operator out of the super kernels around it.
    """

    stream: str | None = None
    cores: int | None = None
    super_kernel: str | None = None
    super_options: str = ""


def set_marks(node: torch.fx.Node, marks: Marks) -> None:
    """Puts these marks on a node. Marks that are None leave the node's own as they are."""
    custom = dict(node.meta.get("custom") or {})
    if marks.stream is not None:
        custom |= {scope.STREAM: marks.stream, scope.PRIORITY: 0}
    if marks.cores is not None:
        custom[scope.CORES] = marks.cores
    if marks.super_kernel is not None:
        custom[super_kernel.SUPER] = marks.super_kernel
        custom[super_kernel.OPTIONS] = marks.super_options
    node.meta["custom"] = custom


def is_traced() -> bool:
    """Whether this code is traced or belongs to a compilation of this thread. Other
    threads may compile meanwhile, which `torch.compiler.is_compiling()` cannot tell."""
    return scope.is_traced()


def is_own_trace() -> bool:
    """Whether the trace that runs is one for this package's compiler, or an export, which
    it may read. Other traces are Dynamo's own and those for other backends."""
    return dynamo_lock.is_held() or torch.compiler.is_exporting()


def unbroken_scope(what: str) -> contextlib.AbstractContextManager[None]:
    """Makes a graph break an error, for a scope's own context manager: a generator uses
    it around its `yield`.

    The error is torch._dynamo.exc.Unsupported. Its message names `what`, the line that
    entered the scope and the line that breaks the graph. Eager code is not affected.
    """
    return unbroken.unbroken(what)


def drop_super_kernel(node: torch.fx.Node) -> None:
    """Takes the mark of a super kernel from a node; other marks stay."""
    custom = node.meta.get("custom") or {}
    custom.pop(super_kernel.SUPER, None)
    custom.pop(super_kernel.OPTIONS, None)


def stream_of(node: torch.fx.Node) -> str | None:
    """The stream that a node is marked for; None without a mark."""
    return (node.meta.get("custom") or {}).get(scope.STREAM)


def read_super_kernel_option(text: str) -> tuple[str, str]:
    """Name and value of one `name=value` of super_kernel(). ValueError: there is no
    such option, or it does not take this value."""
    return super_kernel.check(text)


def wait_if_computed(tensor: torch.Tensor, dependency: torch.Tensor) -> torch.Tensor:
    """`anabranch.wait` for use inside an operator's implementation. If the graph does
    not compute `dependency`, the value exists already, and the wait does nothing."""
    torch.ops.anabranch.wait(tensor, dependency, False)
    # The value gets a name of its own, so that its users can be told apart from those
    # of `tensor`.
    with scope.annotated({scope.PASS: True}):
        return torch.ops.aten.alias.default(tensor)


def is_order_operator(target: OpOverload) -> bool:
    """Whether an operator only orders others: WAIT, RECORD, WAIT_EVENT or WAIT_TAG."""
    return mark_order.is_order(target)


def is_wait_result(node: torch.fx.Node) -> bool:
    """Whether a node is the alias of a tensor that a wait returns."""
    return mark_order.is_pass(node)


def add_mark_resolver(resolve: Callable[[torch.fx.GraphModule], None]) -> None:
    """Registers a function that turns a front end's own marks into those of this
    module. `anabranch.export` calls it with each graph before it reads the marks."""
    scope.resolvers.append(resolve)
