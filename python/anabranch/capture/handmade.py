"""Completes nodes that a pass inserted by hand, and takes apart the operators that the
trace kept whole for it. The result is nodes as the tracer makes them.

    Before: %r = call_function[target=torch.relu](%x)      no meta["val"]
    After:  %r = call_function[target=aten.relu.default](%x)   with meta["val"]"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import torch
import torch.fx
from torch._guards import detect_fake_mode
from torch._ops import HigherOrderOperator, OpOverload
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

from ..describe.written import is_dense, storage
from ..errors import CompileError
from . import kept_whole
from .aot import WHOLE, all_decompositions
from .splicing import Memory, copy_before

_IMPLICIT = "CompositeImplicitAutograd"
# The functions that operators are made of.
Parts = Mapping[Any, Callable[..., Any]]
NO_PARTS: Parts = MappingProxyType({})


def complete(module: torch.fx.GraphModule, parts: Parts = NO_PARTS) -> None:
    """Gives `meta["val"]` to every node that lacks it. If a node's dtype or shape
    changed, its readers get a new `meta["val"]` too.

    A node that no traced graph has (a call of a function, a method or a module, or of
    an operator that is taken apart) becomes the operators that it is made of. So does
    an operator in `parts`, whose function is traced once for arguments of equal forms.
    CompileError: a node cannot be run.
    """
    for child in module.children():
        if isinstance(child, torch.fx.GraphModule):
            complete(child, parts)
    work = Completion(module, parts)
    if all(map(work.is_complete, module.graph.nodes)):
        return
    for node in list(module.graph.nodes):
        work.visit(node)
    module.graph.lint()
    module.recompile()


def _runs_subgraphs(node: torch.fx.Node) -> bool:
    return isinstance(node.target, HigherOrderOperator)


def _has_none(node: torch.fx.Node) -> bool:
    return node.op in ("placeholder", "output")


class Completion:
    """Puts nodes into a graph as the tracer makes them."""

    def __init__(self, module: torch.fx.GraphModule, parts: Parts = NO_PARTS) -> None:
        self.module = module
        # What operators that the trace of the graph kept whole are made of.
        self.whole = {**kept_whole.PARTS, **parts}
        # Nodes whose value is not the one of the trace any more.
        self.changed: set[torch.fx.Node] = set()
        self.erased: set[torch.fx.Node] = set()
        # Traces of these operators, by operator and forms of arguments.
        self.parts: dict[Any, torch.fx.GraphModule] = {}

    @functools.cached_property
    def mode(self) -> FakeTensorMode:
        """The mode of the graph's values. Those of a graph that is complete may have
        several."""
        values = [node.meta.get("val") for node in self.module.graph.nodes]
        return detect_fake_mode(values) or FakeTensorMode()

    def is_complete(self, node: torch.fx.Node) -> bool:
        if node.op == "get_attr" and "val" not in node.meta:
            return all(_runs_subgraphs(user) for user in node.users)
        return _has_none(node) or ("val" in node.meta and not self._is_kept(node))

    def _is_kept(self, node: torch.fx.Node) -> bool:
        return node.target in self.whole

    def visit(self, node: torch.fx.Node) -> None:
        if _has_none(node) or node in self.erased:
            return
        if self._is_kept(node):
            self._inline(node)
        elif "val" in node.meta:
            if not self.changed.isdisjoint(node.all_input_nodes):
                self._renew(node)
        elif node.op == "get_attr":
            node.meta["val"] = self._attribute(str(node.target))
        elif _is_final(node):
            node.meta["val"] = self.run(node, self._function(node))
            self.changed.add(node)
        else:
            self._inline(node)

    def _renew(self, node: torch.fx.Node) -> None:
        value = self.run(node, self._function(node))
        if _visible_type(value) != _visible_type(node.meta["val"]):
            node.meta["val"] = value
            self.changed.add(node)

    def _attribute(self, name: str) -> Any:
        value: Any = self.module
        for part in name.split("."):
            value = getattr(value, part)
        if isinstance(value, torch.Tensor):
            return self.mode.from_tensor(value, static_shapes=True)
        return value

    def _function(self, node: torch.fx.Node) -> Callable[..., Any]:
        if node.op == "call_method":
            return lambda this, *args, **kwargs: getattr(this, str(node.target))(
                *args, **kwargs
            )
        if node.op == "call_module":
            return self.module.get_submodule(str(node.target))
        assert callable(node.target)
        return self.whole.get(node.target, node.target)

    def run(self, node: torch.fx.Node, function: Callable[..., Any]) -> Any:
        args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), _value_of)
        try:
            with self.mode, torch.no_grad():
                return function(*args, **kwargs)
        except Exception as error:
            raise CompileError(
                f"{node.name}, a call of {node.target} that a pass has put into the"
                f" graph or has given other arguments, can't be run: {error}"
            ) from error

    def _inline(self, node: torch.fx.Node) -> None:
        """Replaces the node by the nodes of a trace of it."""
        inputs = [n for n in node.all_input_nodes if is_traced(n.meta.get("val"))]

        def call(*values: Any) -> Any:
            known = dict(zip(inputs, values))
            args, kwargs = torch.fx.node.map_arg(
                (node.args, node.kwargs),
                lambda n: known[n] if n in known else _value_of(n),
            )
            return self._function(node)(*args, **kwargs)

        values = [n.meta["val"] for n in inputs]
        key = _form_of(node, inputs) if self._is_kept(node) else None
        part = self.parts.get(key)
        if part is None:
            part = self.trace(node, call, values)
        if key is not None and not _makes_sizes(part):
            self.parts[key] = part
        copied = self.copy(part, inputs, node)
        result = part.graph.output_node().args[0]
        self._keep_equal(result, node.meta.get("val"), copied)
        self._give_back(node, torch.fx.node.map_arg(result, copied.get))

    def _keep_equal(
        self, result: Any, before: Any, copied: dict[torch.fx.Node, torch.fx.Node]
    ) -> None:
        """Readers of a result that looks as it did before stay as they are."""
        if isinstance(result, list | tuple):
            if isinstance(before, list | tuple) and len(before) == len(result):
                for one, other in zip(result, before):
                    self._keep_equal(one, other, copied)
        elif isinstance(result, torch.fx.Node) and (
            _visible_type(result.meta["val"]) == _visible_type(before)
        ):
            self.changed.discard(copied.get(result, result))

    def copy(
        self,
        part: torch.fx.GraphModule,
        inputs: Sequence[torch.fx.Node],
        place: torch.fx.Node,
    ) -> dict[torch.fx.Node, torch.fx.Node]:
        """Copies the nodes of a trace in front of `place`. Its inputs are `inputs`.
        Returns the copies by the nodes of the trace."""
        copied = copy_before(place, self.module, part, inputs, self.mode)
        self.changed.update(
            copied[inner] for inner in part.graph.nodes if inner.op == "call_function"
        )
        return copied

    def trace(
        self, node: torch.fx.Node, call: Callable[..., Any], values: Sequence[Any]
    ) -> torch.fx.GraphModule:
        before = self.mode.allow_non_fake_inputs
        self.mode.allow_non_fake_inputs = True  # the parameters of a module
        try:
            with self.mode, torch.no_grad():
                return make_fx(call, all_decompositions())(*_told_apart(values))
        except Exception as error:
            raise CompileError(
                f"{node.name}, a call of {node.target} that a pass has put into the"
                f" graph, can't be traced: {error}"
            ) from error
        finally:
            self.mode.allow_non_fake_inputs = before

    def _give_back(self, node: torch.fx.Node, result: Any) -> None:
        """Makes users of the node read the result of the trace."""
        if isinstance(result, list | tuple):
            for user in list(node.users):
                if getattr(user.target, "__name__", "") == "getitem":
                    self._give_back(user, result[user.args[1]])
        elif isinstance(result, torch.fx.Node):
            node.replace_all_uses_with(result)
        if node.users:
            raise CompileError(
                f"{node.name}, a call of {node.target} that a pass has put into the"
                " graph, gives a list, of which only single items can be read"
            )
        self._erase(node)

    def _erase(self, node: torch.fx.Node) -> None:
        self.module.graph.erase_node(node)
        self.erased.add(node)


def _is_final(node: torch.fx.Node) -> bool:
    """Whether a trace of the node would give the same node."""
    target = node.target
    if node.op != "call_function":
        return False
    if not isinstance(target, OpOverload):
        return getattr(target, "__name__", "") == "getitem" or not any(
            isinstance(n.meta.get("val"), torch.Tensor) for n in node.all_input_nodes
        )
    if target in WHOLE:
        return True
    if target._schema.is_mutable or not target._schema.returns:
        return True
    implicit = torch._C._dispatch_has_kernel_for_dispatch_key(target.name(), _IMPLICIT)
    return target not in all_decompositions() and not implicit


def is_traced(value: Any) -> bool:
    return isinstance(value, torch.Tensor | torch.SymInt | torch.SymFloat)


def _value_of(node: torch.fx.Node) -> Any:
    return node.meta.get("val")


def _form_of(node: torch.fx.Node, inputs: Sequence[torch.fx.Node]) -> Any:
    """A key of an operator's trace: which of the arguments are one node, or one memory,
    and their types, dtypes, shapes, strides and offsets. A trace of `f(x, x)` has one
    placeholder, and does not know which of two arguments it stands for."""
    memory = [storage(v) for v in map(_value_of, inputs) if is_dense(v)]

    def form(argument: torch.fx.Node) -> Any:
        value = _value_of(argument)
        place = inputs.index(argument) if argument in inputs else -1
        if not is_dense(value):
            return place, str(_visible_type(value))
        steps = str((value.stride(), value.storage_offset()))
        return place, memory.index(storage(value)), str(_visible_type(value)), steps

    return node.target, str(torch.fx.node.map_arg((node.args, node.kwargs), form))


def _makes_sizes(part: torch.fx.GraphModule) -> bool:
    """Whether the trace has symbols for sizes that data decides. Each call has its
    own."""
    return any("unbacked_bindings" in node.meta for node in part.graph.nodes)


def _told_apart(values: Sequence[Any]) -> list[Any]:
    """The values, each an object of its own. A trace knows its arguments by them, and a
    pass may have given one value to two nodes."""
    apart: list[Any] = []
    for value in values:
        if any(value is other for other in apart):
            memory = Memory()
            memory.put(value, value)
            value = memory.moved(value)
        apart.append(value)
    return apart


def _visible_type(value: Any) -> Any:
    """The properties of a value that later nodes can see: dtype, shape, strides."""
    if isinstance(value, torch.Tensor):
        return value.dtype, [str(size) for size in value.shape], value.device
    if isinstance(value, list | tuple):
        return [_visible_type(item) for item in value]
    return str(value)
