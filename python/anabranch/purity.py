"""Decides which graphs write nothing in place, and so need no functionalization."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import torch
import torch.fx
from torch._ops import HigherOrderOperator, OpOverload, OpOverloadPacket
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

# Namespaces whose schemas tell every effect of an operator.
NAMESPACES = ("aten", "prims")
# Single operators of other namespaces, for which the same holds.
PURE = {"anabranch::dequantized"}

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
    if target is torch.ops.higher_order.invoke_subgraph:
        return may_write(_called_region(node, module), ())
    if isinstance(target, HigherOrderOperator):
        return True
    if isinstance(target, OpOverloadPacket):
        return target._qualified_op_name.partition("::")[0] not in NAMESPACES
    name = getattr(target, "__name__", "")
    if getattr(operator, name, None) is target:
        return name in _IN_PLACE
    return name.endswith("_")


def _called_region(
    node: torch.fx.Node, module: torch.fx.GraphModule
) -> torch.fx.GraphModule:
    region: Any = node.args[0]
    return module.get_submodule(region.target)  # type: ignore[return-value]


def is_pure(graph: torch.fx.GraphModule) -> bool:
    """Whether no operator of an ATen graph writes to its arguments."""
    return all(
        _is_pure(node.target)
        for node in graph.graph.nodes
        if node.op == "call_function"
        and isinstance(node.target, OpOverload | HigherOrderOperator)
    )


def _is_pure(target: OpOverload | HigherOrderOperator) -> bool:
    return (
        isinstance(target, OpOverload)
        and (target.namespace in NAMESPACES or target._schema.name in PURE)
        and not target._schema.is_mutable
    )
