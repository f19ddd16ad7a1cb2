"""Decides which graphs write nothing in place, and so need no functionalization.
Operators of this package that write nothing are defined here, too."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
import torch.fx
from torch._ops import HigherOrderOperator, OpOverload, OpOverloadPacket
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

# Namespaces whose schemas tell every effect of an operator.
NAMESPACES = ("aten", "prims")
# Operators that `define` made, for which the same holds.
_defined: set[OpOverload] = set()


@functools.cache
def _library(namespace: str) -> torch.library.Library:
    """The library keeps its operators alive."""
    return torch.library.Library(namespace, "FRAGMENT")


# Operators that write only what their subgraphs write.
_RUN_SUBGRAPHS = (
    torch.ops.higher_order.invoke_subgraph,
    torch.ops.higher_order.cond,
    torch.ops.higher_order.while_loop,
    torch.ops.higher_order.scan,
    torch.ops.higher_order.map_impl,
    torch.ops.higher_order.flex_attention,
)

# Functions of the module `operator` that write, by name. The name of `and_` looks so,
# but it does not write.
_IN_PLACE = {
    "setitem",
    "delitem",
    "iadd",
    "isub",
    "imul",
    "itruediv",
    "ifloordiv",
    "imod",
    "ipow",
    "imatmul",
    "iand",
    "ior",
    "ixor",
    "ilshift",
    "irshift",
}


def define(
    schema: str, compute: Callable[..., object], fake: Callable[..., object]
) -> OpOverload:
    """Defines an operator whose schema tells every effect that graphs depend on, in the
    namespace `anabranch` if the schema names none. `compute` computes it where no kernel
    does, and `fake` makes its results on fake tensors."""
    space, _, rest = schema.rpartition("::")
    space = space or "anabranch"
    name, library = rest.partition("(")[0], _library(space)
    library.define(rest)
    library.impl(name, compute, "CompositeExplicitAutograd")
    torch.library.register_fake(f"{space}::{name}", fake, lib=library)
    made: OpOverload = getattr(getattr(torch.ops, space), name).default
    _defined.add(made)
    return made


class Impure(Exception):
    """A trace without functionalization writes in place."""


def may_write(module: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> bool:
    """Whether a Dynamo graph seems to write in place. This guess can save a trace;
    `is_pure` decides."""
    return any(map(is_traceable_wrapper_subclass, example_inputs)) or any(
        _may_write(node, module) for node in module.graph.nodes
    )


def _may_write(node: torch.fx.Node, module: torch.fx.GraphModule) -> bool:
    if node.kwargs.get("inplace") or node.kwargs.get("out") is not None:
        return True
    target: Any = node.target
    if node.op == "call_method":
        return str(target).endswith("_")
    if node.op != "call_function":
        return node.op == "call_module"
    if isinstance(target, OpOverload):
        return not _is_pure(target)
    if target in _RUN_SUBGRAPHS:
        return any(may_write(part, ()) for part in _subgraphs(node, module))
    if isinstance(target, HigherOrderOperator):
        return True
    if isinstance(target, OpOverloadPacket):
        return target._qualified_op_name.partition("::")[0] not in NAMESPACES
    name = getattr(target, "__name__", "")
    if getattr(operator, name, None) is target:
        return name in _IN_PLACE
    return name.endswith("_")


def _subgraphs(
    node: torch.fx.Node, module: torch.fx.GraphModule
) -> Iterator[torch.fx.GraphModule]:
    """The subgraphs that a higher-order operator runs."""
    for argument in node.args:
        if isinstance(argument, torch.fx.Node) and argument.op == "get_attr":
            part = getattr(module, str(argument.target))
            if isinstance(part, torch.fx.GraphModule):
                yield part


def is_pure(graph: torch.fx.GraphModule) -> bool:
    """Whether no operator of an ATen graph writes to its arguments."""
    return all(
        all(map(is_pure, _subgraphs(node, graph)))
        if node.target in _RUN_SUBGRAPHS
        else _is_pure(node.target)
        for node in graph.graph.nodes
        if node.op == "call_function"
        and isinstance(node.target, OpOverload | HigherOrderOperator)
    )


def _is_pure(target: OpOverload | HigherOrderOperator) -> bool:
    return (
        isinstance(target, OpOverload)
        and tells_effects(target)
        and not target._schema.is_mutable
    )


def tells_effects(target: OpOverload) -> bool:
    """Whether the operator's schema tells every effect that it has."""
    return target.namespace in NAMESPACES or target in _defined
