"""Converters of operators: registered by users, called for each node of a graph.

Before: %y = call_function[target=mylib.twice.default](%x)
After:  what the converter's IR nodes compute, traced in the place of %y
"""

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

# By the operator's name: a library that is defined anew makes other objects.
_converters: dict[str, Converter] = {}

# What a node says of the program, and what takes its place must say as well.
_KEPT = ("custom", "stack_trace", "nn_module_stack", "seq_nr")


def register_fx_node_ge_converter(aten_op: Any) -> Callable[[Converter], Converter]:
    """A decorator: in graphs that are compiled from now on, nodes of this operator
    become what the converter makes of ge.Tensors and plain values. A later converter of
    the same operator wins; with None the decorator does nothing."""

    def register(converter: Converter) -> Converter:
        if aten_op is not None:
            for name in _names(aten_op):
                _converters[name] = converter
        return converter

    return register


def _names(operator: Any) -> list[str]:
    """Of an overload, or of all of them."""
    if isinstance(operator, OpOverloadPacket):
        return [getattr(operator, name).name() for name in operator.overloads()]
    return [operator.name() if isinstance(operator, OpOverload) else str(operator)]


def registered(target: OpOverload) -> Converter | None:
    """The converter that was registered for an operator last."""
    return _converters.get(target.name())


def converters_digest() -> str:
    """Of all converters, for the keys of caches; "" without any."""
    return ",".join(
        sorted(f"{name}={code_digest(made)}" for name, made in _converters.items())
    )


def run_converters(module: torch.fx.GraphModule) -> bool:
    """Whether a converter was called. CompileError: what it makes is not what the
    operator returns. UnknownOperator: it needs an IR operator that this host can't
    compute, and the operator has no kernel of its own. RuntimeError: an operator has
    neither kernel nor converter, and no IR operator of its name."""
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
    """What a node calls, if it has results that a converter can make."""
    if not isinstance(node.meta.get("val"), torch.Tensor | list | tuple):
        return None
    found = node.args[0] if is_writing(node) else node.target
    return found if isinstance(found, OpOverload) else None


def _run_exported(module: torch.fx.GraphModule) -> None:
    """An operator without a kernel may have one where the package runs."""
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
