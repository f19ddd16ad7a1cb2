"""Cuts a graph around operators that have no description: operators whose results have
sizes that depend on data, and higher-order operators.

PyTorch runs these operators. The parts between them are described and compiled one by
one, for sizes that are known when a part is called. docs/design/shapes.md.

One pass over the nodes, in their order, grows one part at a time. A node joins the open
part, waits until the part has been called, or closes the part. Results keep their bits,
and operators that write or draw random numbers keep their order. The pass takes time
linear in nodes, edges and the symbols of the sizes. A graph with events is not cut, nor
one with views of memory that a part would copy."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
import torch.fx
from torch._ops import OpOverload
from torch.fx import Node

from .. import purity
from ..describe import auto_functionalized, written
from ..describe.description import InputSource
from ..describe.storages import reads_outside_of_view
from ..describe.symbols import integer, numbers_of
from ..describe.tensors import foreign_strides
from ..marks.mark_order import is_order
from ..marks.super_kernel import check_parts
from ..saved.graph import SavedGraph, SavedPart
from .sharing import overlaps_itself

# Compiles one part: its graph, where its inputs come from, its number.
PartCompiler = Callable[
    [torch.fx.GraphModule, Sequence[InputSource], int], Callable[[list[Any]], Any]
]


class Parts:
    """The parts of one graph. `whole` is a graph that calls the parts, and PyTorch's
    operators between them; None: cutting the graph gains nothing."""

    def __init__(
        self,
        module: torch.fx.GraphModule,
        sources: Sequence[InputSource],
        compile_part: PartCompiler,
        reason: str = "",
    ) -> None:
        """`reason`: why the graph as a whole has no description."""
        self.module = module
        self.compile_part = compile_part
        self.reason = reason
        self.count = 0
        self.outside: list[str] = []  # names of operators that PyTorch runs, in order
        self.undescribed: list[
            Node
        ] = []  # of these, the operators that have no description
        self.whole: torch.fx.GraphModule | None = None
        self._sources: dict[Node, InputSource] = {}
        self._driver = torch.fx.Graph()
        self._values: dict[Node, Node] = {}  # nodes of `whole`, by the graph's nodes
        self._symbols: dict[str, _Symbol] = {}
        self._from_parts: set[Node] = set()  # nodes whose values parts compute
        self._laid_out: dict[Node, Node] = {}
        self._written = {
            written.storage(update.value.meta["val"]): update
            for update in written.viewed(module.graph.nodes)
        }
        # Whether a view of an input that the graph writes to begins at a distance that
        # only a call knows, or has elements that share memory: a part returns such a
        # view with other strides.
        self._cannot_place = False
        # The open part, and the nodes that wait until it has been called.
        self._open: dict[Node, None] = {}
        self._waiting: dict[Node, None] = {}
        self._pending: list[tuple[Node, torch.fx.GraphModule, list[InputSource]]] = []
        placeholders = [n for n in module.graph.nodes if n.op == "placeholder"]
        self._sources.update(zip(placeholders, sources))
        if _can_be_parted(module.graph.nodes):
            self._split()

    def _split(self) -> None:
        for node in self.module.graph.nodes:
            self._take(node)
        if not self.outside or not self._pending or self._cannot_place:
            return
        check_parts(
            [part.graph.nodes for _, part, _ in self._pending],
            self.undescribed,
            self.reason,
        )
        for call, part, sources in self._pending:
            compiled = self.compile_part(part, sources, self.count)
            call.target = _function(compiled, self.count)
            self.count += 1
        self.whole = torch.fx.GraphModule(self.module, self._driver)

    def _take(self, node: Node) -> None:
        if node in self._open:
            return
        waits = self._is_from(node, self._waiting)
        needs_part = waits or self._is_from(node, self._open)
        if node.op == "output":
            self._close()
            self._emit(node)
        elif _is_item(node) or node.op != "call_function":
            self._emit(node)
        elif _is_check(node) or _is_number(node):
            if not needs_part:
                # the node does not depend on the open part, so it runs before it
                self._emit(node)
            elif waits or not _is_integer(node):
                self._waiting[node] = None
            else:
                self._open[node] = None
        elif _has_description(node):
            if waits:
                self._close()
            self._open[node] = None
            # A list cannot be an input of a part; its items can.
            if isinstance(node.meta["val"], tuple | list):
                self._open.update(dict.fromkeys(node.users))
        else:
            if needs_part or not _is_pure(node):
                self._close()
            self.outside.append(str(node.target))
            self.undescribed.append(node)
            self._emit(node)

    @staticmethod
    def _is_from(node: Node, others: Iterable[Node]) -> bool:
        return any(source in others for source in node.all_input_nodes)

    def _emit(self, node: Node) -> None:
        """Lets PyTorch run the node at this place of `whole`."""
        if node.target is torch.ops.aten._assert_tensor_metadata.default:
            return
        made = self._driver.node_copy(node, self._values.__getitem__)
        self._values[node] = made
        if _is_check(node) and any(map(_is_tensor, node.all_input_nodes)):
            self.outside.append(str(node.target))
        self._note_symbols(node, made)

    def _close(self) -> None:
        """Calls the open part at this place of `whole`, then the nodes that wait for
        its results."""
        nodes, self._open = list(self._open), {}
        if any(map(_computes, nodes)):
            self._call_part(nodes)
        else:
            for node in nodes:
                self._emit(node)
        late, self._waiting = self._waiting, {}
        for node in late:
            self._emit(node)

    # One part

    def _call_part(self, nodes: list[Node]) -> None:
        part = torch.fx.Graph()
        inside: dict[Node, Node] = {}
        own = set(nodes)
        sources: list[InputSource] = []
        arguments: list[Node] = []

        def add(name: str, value: Any, source: InputSource, argument: Node) -> Node:
            made = part.placeholder(name)
            made.meta["val"] = value
            sources.append(source)
            arguments.append(argument)
            return made

        for given in _inputs_of(nodes, own):
            if given.op == "get_attr":
                inside[given] = part.node_copy(given)
                continue
            source = self._sources.get(given) or InputSource(given.name)
            argument = self._with_traced_strides(given)
            inside[given] = add(given.name, given.meta.get("val"), source, argument)
        for name in self._missing_symbols(nodes, inside):
            symbol = self._symbols[name]
            add(f"size_{name}", symbol.value, InputSource(name), self._read(symbol))
        for node in nodes:
            inside[node] = part.node_copy(node, inside.__getitem__)
        results = [n for n in nodes if any(user not in own for user in n.users)]
        end = part.output(tuple(inside[node] for node in results))
        end.meta["val"] = tuple(node.meta["val"] for node in results)
        call = self._driver.call_function(_unmade, tuple(arguments))
        for place, node in enumerate(results):
            item = self._driver.call_function(operator.getitem, (call, place))
            self._values[node] = self._placed(node, item)
            self._from_parts.add(node)
            self._note_symbols(node, item)
        module = torch.fx.GraphModule(self.module, part)
        self._pending.append((call, module, sources))

    def _with_traced_strides(self, node: Node) -> Node:
        """Copies a result of PyTorch's operator to the strides that the trace promised,
        if they may differ."""
        made, value = self._values[node], node.meta.get("val")
        if node.op != "call_function" or node in self._from_parts:
            return made
        if not isinstance(value, torch.Tensor) or foreign_strides(value) is not None:
            return made
        if node not in self._laid_out:
            self._laid_out[node] = self._driver.call_method("contiguous", (made,))
        return self._laid_out[node]

    def _placed(self, node: Node, made: Node) -> Node:
        """Places the new value of an input where the input begins in memory, if views
        of the input are returned; see describe/written.py."""
        value = node.meta.get("val")
        if not written.is_dense(value):
            return made
        update = self._written.get(written.storage(value))
        if update is None:
            return made
        target, source = update.target, update.value.meta["val"]
        distance = integer(value.storage_offset() - source.storage_offset())
        if not isinstance(distance, int) or overlaps_itself(value):
            self._cannot_place = True
            return made
        read = torch.ops.aten.sym_storage_offset.default
        start = self._driver.call_function(read, (self._values[target],))
        if distance:
            start = self._driver.call_function(operator.add, (start, distance))
        return self._driver.call_function(_moved, (made, start))

    # Symbols

    def _note_symbols(self, node: Node, made: Node) -> None:
        """Notes which symbols can be read from this value at a call."""
        value = node.meta.get("val")
        if node in self._sources and self._sources[node].constant is not None:
            return
        sizes = value.shape if isinstance(value, torch.Tensor) else [value]
        for dim, size in enumerate(sizes):
            if name := _bare(size):
                at = dim if isinstance(value, torch.Tensor) else None
                self._symbols.setdefault(name, _Symbol(size, made, at))

    def _missing_symbols(
        self, nodes: Iterable[Node], inside: dict[Node, Node]
    ) -> list[str]:
        """The symbols that the part needs and that none of its inputs is, or has as a
        size."""
        needed: set[str] = set()
        defined: set[str] = set()
        for node in (*nodes, *inside):
            for size in numbers_of(node.meta.get("val"), layout=True):
                needed |= {symbol.name for symbol in size.node.expr.free_symbols}
        for node in inside:
            source = self._sources.get(node)
            if node.op != "get_attr" and (source is None or source.constant is None):
                value = node.meta.get("val")
                sizes = value.shape if isinstance(value, torch.Tensor) else [value]
                defined |= {_bare(size) for size in sizes}
        return sorted((needed - defined) & set(self._symbols))

    def _read(self, symbol: _Symbol) -> Node:
        if symbol.dim is not None:
            size = torch.ops.aten.sym_size.int
            symbol.node = self._driver.call_function(size, (symbol.node, symbol.dim))
            symbol.dim = None
        return symbol.node


class _Symbol:
    """A symbol, and where `whole` reads it: from a number, or from a size of a tensor."""

    def __init__(self, value: torch.SymInt, node: Node, dim: int | None) -> None:
        self.value = value
        self.node = node
        self.dim = dim


def _function(compiled: Callable[[list[Any]], Any], number: int) -> Any:
    def call(*arguments: Any) -> Any:
        return compiled(list(arguments))

    call.__name__ = f"part{number}"
    if isinstance(compiled, SavedGraph):
        call.saved_module = SavedPart(compiled)  # type: ignore[attr-defined]
    return call


def _moved(tensor: torch.Tensor, offset: int) -> torch.Tensor:
    """The tensor, moved by `offset` elements in its memory."""
    if tensor.storage_offset() == offset or not tensor.numel():
        return tensor
    extent = sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride()))
    memory = tensor.new_empty(offset + extent + 1)
    placed = memory.as_strided(tensor.shape, tensor.stride(), offset)
    return placed.copy_(tensor)


class _Moved(torch.nn.Module):
    """`_moved` in a graph that PyTorch saves."""

    def forward(self, tensor: torch.Tensor, offset: int) -> torch.Tensor:
        return _moved(tensor, offset)


_moved.saved_module = _Moved()  # type: ignore[attr-defined]


def _unmade(*_: Any) -> Any:
    raise AssertionError("a part is called before it is compiled")


def _can_be_parted(nodes: Iterable[Node]) -> bool:
    """Whether the graph may be cut. Parts would have to know of each other's events and
    waits, and would return copies of views of memory."""
    return not any(
        isinstance(node.target, OpOverload)
        and (is_order(node.target) or reads_outside_of_view(node))
        for node in nodes
    )


def _inputs_of(nodes: Iterable[Node], own: set[Node]) -> Iterable[Node]:
    given = (source for node in nodes for source in node.all_input_nodes)
    return dict.fromkeys(source for source in given if source not in own)


def _is_item(node: Node) -> bool:
    return getattr(node.target, "__name__", "") == "getitem"


def _is_number(node: Node) -> bool:
    """A number that Python computes from sizes."""
    value = node.meta.get("val")
    kinds = (bool, int, float, torch.SymInt, torch.SymFloat, torch.SymBool)
    return isinstance(value, kinds) and "unbacked_bindings" not in node.meta


def _is_integer(node: Node) -> bool:
    value = node.meta.get("val")
    return isinstance(value, int | torch.SymInt) and not isinstance(value, bool)


def _is_check(node: Node) -> bool:
    target: Any = node.target
    return (
        isinstance(target, OpOverload)
        and node.meta.get("val") is None
        and _is_pure(node)
    )


def _is_tensor(node: Node) -> bool:
    return isinstance(node.meta.get("val"), torch.Tensor)


def _is_pure(node: Node) -> bool:
    """Whether the node may run earlier than where it stands."""
    target: Any = node.target
    return (
        isinstance(target, OpOverload)
        and purity.tells_effects(target)
        and not target._schema.is_mutable
        and torch.Tag.nondeterministic_seeded not in target.tags
    )


def _has_description(node: Node) -> bool:
    """Whether operators of this kind have a description."""
    target: Any = node.target
    value = node.meta.get("val")
    if auto_functionalized.is_writing(node):
        return auto_functionalized.is_plain(node)
    return (
        isinstance(target, OpOverload)
        and not target._schema.is_mutable
        and not node.meta.get("unbacked_bindings")
        and isinstance(value, torch.Tensor | tuple | list)
        and all(
            _is_integer(source) or not _is_number_at_all(source)
            for source in node.all_input_nodes
        )
    )


def _is_number_at_all(node: Node) -> bool:
    return not isinstance(node.meta.get("val"), torch.Tensor | tuple | list)


def _computes(node: Node) -> bool:
    """Whether the node computes something, and does not only view memory in another
    way."""
    target: Any = node.target
    if auto_functionalized.is_writing(node):
        return True
    return isinstance(target, OpOverload) and not any(
        result.alias_info is not None for result in target._schema.returns
    )


def _bare(size: Any) -> str:
    """The name of a symbol, if the size is one symbol; else empty."""
    if isinstance(size, torch.SymInt) and size.node.expr.is_Symbol:
        return size.node.expr.name
    return ""
