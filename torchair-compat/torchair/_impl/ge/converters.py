"""Converters of operators: registered by users, called for each node of a graph.

Before: %y = call_function[target=mylib.twice.default](%x)
After:  what the converter's IR nodes compute, traced in the place of %y
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.fx
from torch._ops import OpOverload, OpOverloadPacket
from torch.utils._pytree import tree_map_only

from anabranch import CompileError, extension
from anabranch.extension import code_digest, complete_nodes, user_line

from ..errors import warn_once
from ..log import logger
from .automatic import BUILT_IN, automatic_converter
from .definitions import UnknownOperator
from .types import Node, Tensor, TensorSpec

__all__ = ["converters_digest", "register_fx_node_ge_converter", "run_converters"]

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


def _registered(target: OpOverload) -> Converter | None:
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
        if not isinstance(node.target, OpOverload) or not _promised(node):
            continue
        converter = find(node.target)
        if converter is not None:
            called = _convert(module, node, converter) or called
    return called


def _run_exported(module: torch.fx.GraphModule) -> None:
    """An operator without a kernel may have one where the package runs."""
    _run(module, _registered)


extension.add_mark_resolver(_run_exported)


def _converter_or_automatic(target: OpOverload) -> Converter | None:
    found = _registered(target)
    if found is not None or target.namespace in BUILT_IN or _has_kernel(target):
        return found
    return automatic_converter(target)


def _has_kernel(target: OpOverload) -> bool:
    has = torch._C._dispatch_has_computed_kernel_for_dispatch_key
    return has(target.name(), "CPU")


def _promised(node: torch.fx.Node) -> bool:
    """Whether the node has results that a converter can make."""
    return isinstance(node.meta.get("val"), torch.Tensor | list | tuple)


def _convert(
    module: torch.fx.GraphModule, node: torch.fx.Node, converter: Converter
) -> bool:
    call = _Call(node, converter)
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


class _Call:
    """The function that a node of an operator becomes, for as long as it is traced."""

    def __init__(self, node: torch.fx.Node, converter: Converter) -> None:
        self.operator: Any = node.target
        self.__name__ = str(node.target)
        self.error: Exception | None = None
        self._converter = converter
        self._promised = node.meta["val"]
        self._where = f"{node.name}, a call of {node.target}"
        line = user_line(node)
        self._end = f"\n  {line}" if line else ""

    def __str__(self) -> str:
        return self.__name__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return self._run(args, kwargs)
        except UnknownOperator as error:
            self.error = UnknownOperator(self._text(error))
            raise
        except AssertionError as error:
            self.error = error
            raise
        except Exception as error:
            self.error = CompileError(self._text(error))
            raise

    def _text(self, error: Exception) -> str:
        return f"the converter for {self._where}: {error}{self._end}"

    def _run(self, args: Any, kwargs: Any) -> Any:
        args, kwargs = tree_map_only(torch.Tensor, _handle, (args, kwargs))
        if "meta_outputs" in inspect.signature(self._converter).parameters:
            specs = tree_map_only(torch.Tensor, TensorSpec, self._promised)
            kwargs["meta_outputs"] = specs
        found = self._converter(*args, **kwargs)
        if isinstance(self._promised, torch.Tensor):
            return self._checked(found, self._promised, "its result")
        return self._checked_all(found, self._promised)

    def _checked_all(self, found: Any, promised: Sequence[Any]) -> Any:
        given = list(found) if isinstance(found, list | tuple) else [found]
        if len(given) != len(promised):
            raise CompileError(
                f"it makes {len(given)} results, the operator returns {len(promised)}"
            )
        pairs = enumerate(zip(given, promised))
        return [self._checked(g, p, f"result {i}") for i, (g, p) in pairs]

    def _checked(self, found: Any, promised: Any, what: str) -> Any:
        """The result, in the dtype that the operator promises."""
        if isinstance(promised, list | tuple):
            return self._checked_all(found, promised)
        if promised is None:
            return None
        if isinstance(found, list | tuple) and len(found) == 1:
            (found,) = found
        if not isinstance(found, Tensor):
            raise CompileError(f"{what} is a {type(found).__name__} and no ge.Tensor")
        value = found.value
        if value.dim() != promised.dim():
            raise CompileError(
                f"{what} has rank {value.dim()}, the operator returns rank"
                f" {promised.dim()}"
            )
        if any(_differ(a, b) for a, b in zip(value.shape, promised.shape)):
            raise CompileError(
                f"{what} has sizes {list(value.shape)}, the operator returns"
                f" {list(promised.shape)}"
            )
        return value.to(promised.dtype)


def _handle(value: torch.Tensor) -> Tensor:
    return Tensor(Node("Data", [value]))


def _differ(size: Any, promised: Any) -> bool:
    """Sizes with symbols are compared where the graph runs."""
    return isinstance(size, int) and isinstance(promised, int) and size != promised
