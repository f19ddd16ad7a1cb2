"""Registers converters of operators, and calls them for each node of a graph.

Before: %y = call_function[target=mylib.twice.default](%x)
After:  the operators of the converter's IR nodes, traced in place of %y"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.fx
from torch._ops import OpOverload, OpOverloadPacket

from anabranch import CompileError, extension
from anabranch.extension import code_digest, complete_nodes

from ..errors import warn_once
from ..log import logger
from .automatic import BUILT_IN, automatic_converter
from .calls import Call
from .definitions import UnknownOperator
from .writing_calls import WritingCall, is_writing

__all__ = [
    "converters_digest",
    "register_fx_node_ge_converter",
    "registered",
    "run_converters",
]

Converter = Callable[..., Any]

# By the operators' names: a library that is defined again makes other objects.
_converters: dict[str, Converter] = {}

# Annotations of a node that its replacements get too.
_KEPT = ("custom", "stack_trace", "nn_module_stack", "seq_nr")


def register_fx_node_ge_converter(aten_op: Any) -> Callable[[Converter], Converter]:
    """A decorator that registers a converter for an operator.

    In graphs that are compiled from now on, nodes of the operator become the
    converter's results. The converter gets ge.Tensors and plain values. A later
    converter of the same operator wins. With None the decorator does nothing.
    """

    def register(converter: Converter) -> Converter:
        if aten_op is not None:
            for name in _names(aten_op):
                _converters[name] = converter
        return converter

    return register


def _names(operator: Any) -> list[str]:
    """The names of an overload, or of all overloads."""
    if isinstance(operator, OpOverloadPacket):
        return [getattr(operator, name).name() for name in operator.overloads()]
    return [operator.name() if isinstance(operator, OpOverload) else str(operator)]


def registered(target: OpOverload) -> Converter | None:
    """The converter that was registered last for an operator; None without one."""
    return _converters.get(target.name())


def converters_digest() -> str:
    """A hash of all converters, for the keys of caches; "" without any."""
    return ",".join(
        sorted(f"{name}={code_digest(made)}" for name, made in _converters.items())
    )


def run_converters(module: torch.fx.GraphModule) -> bool:
    """Calls the converters of a graph's nodes. Returns whether there was one.

    CompileError: the results do not fit the operator. UnknownOperator: the converter
    needs an IR operator that this host cannot compute, and the operator has no kernel.
    RuntimeError: an operator has neither kernel nor converter, and there is no IR
    operator of its name.
    """
    return _run(module, _converter_or_automatic)


def _run(module: torch.fx.GraphModule, find: Callable[[Any], Converter | None]) -> bool:
    called = False
    for node in list(module.graph.nodes):
        operator = _operator(node)
        converter = None if operator is None else find(operator)
        if converter is not None:
            called = _convert(module, node, converter) or called
    return called


def _operator(node: torch.fx.Node) -> OpOverload | None:
    """The operator of a node, if it has results that a converter can make."""
    if not isinstance(node.meta.get("val"), torch.Tensor | list | tuple):
        return None
    found = node.args[0] if is_writing(node) else node.target
    return found if isinstance(found, OpOverload) else None


def _run_exported(module: torch.fx.GraphModule) -> None:
    """Calls converters for anabranch.export. An operator without a kernel stays: the
    machine that runs the package may have one."""
    _run(module, registered)


extension.add_mark_resolver(_run_exported)


def _converter_or_automatic(target: OpOverload) -> Converter | None:
    found = registered(target)
    if found is not None or target.namespace in BUILT_IN or _has_kernel(target):
        return found
    return automatic_converter(target)


def _has_kernel(target: OpOverload) -> bool:
    has = torch._C._dispatch_has_computed_kernel_for_dispatch_key
    return has(target.name(), "CPU")


def _convert(
    module: torch.fx.GraphModule, node: torch.fx.Node, converter: Converter
) -> bool:
    call = (WritingCall if is_writing(node) else Call)(node, converter)
    before = set(module.graph.nodes)
    target, node.target = node.target, call
    promised = node.meta.pop("val")
    kept = {key: node.meta[key] for key in _KEPT if key in node.meta}
    try:
        complete_nodes(module)
    except CompileError as error:
        node.target, node.meta["val"] = target, promised
        cause = call.error or error
        if isinstance(cause, UnknownOperator) and _has_kernel(call.operator):
            _warn(call.operator, cause)
            return False
        if cause is error:
            raise
        raise cause from error
    for made in set(module.graph.nodes) - before:
        made.meta.update(kept)
    logger.debug("converted %s, a call of %s", node.name, call.operator)
    return True


def _warn(target: OpOverload, error: Exception) -> None:
    warn_once(f"the converter of {target} is left out for its own kernel: {error}")
