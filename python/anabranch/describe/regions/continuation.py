"""Moves what follows a size that the run decides into a region, which the program calls
once the size is known.

The results of nonzero, of a selection by a mask and of `.item()` have sizes, or are
numbers, that depend on data. The program around them has no symbols for these. Nodes that
read such a value, and nodes that read these nodes, form the continuation. It takes the
values as inputs, so in it the sizes are symbols like any other. A continuation may need a
continuation of its own. docs/design/regions.md."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any

import torch
import torch.fx
from torch.fx import Node
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

from ... import purity
from ...marks.mark_order import is_order
from ..symbols import DATA_DEPENDENT, Unsupported, integer, numbers_of
from ..tensors import describe, foreign_strides, memory_order
from .run_numbers import COND, INVOKE
from .run_slices import name_sizes

# The key in the `meta` of a result that is laid out in another order: the order in which
# the caller of the graph permutes its dimensions.
PERMUTED = "anabranch_permuted"

# The key in the `meta` of the node that calls a continuation: its graph.
GRAPH = "anabranch_continuation"

aten = torch.ops.aten

_DECIDING = (torch.Tag.dynamic_output_shape, torch.Tag.data_dependent_output)
_NUMBERS = torch.SymFloat | torch.SymBool | torch.SymInt
_ITEM = aten._local_scalar_dense.default


def call_continuation(*operands: Any) -> Any:
    """Stands for the call of a continuation in a graph that is about to be described."""
    raise AssertionError("a continuation has a description")


class RunSizes:
    """Which sizes of a graph only the run knows: those with a symbol that is neither
    Dynamo's nor an input's."""

    def __init__(self, graph: torch.fx.Graph) -> None:
        inputs = graph.find_nodes(op="placeholder")
        self._known = set().union(*(_unbacked(node) for node in inputs))

    def is_unknown(self, size: Any) -> bool:
        return bool(free_unbacked_symbols(size) - self._known)

    def describe(self, value: torch.Tensor) -> dict[str, Any]:
        """A result of this type, with a zero for each size that only the run knows."""
        if not self.is_unknown(value):
            return describe(value)
        shape = [0 if self.is_unknown(n) else integer(n) for n in value.shape]
        return describe(value) | {"shape": shape, "run_sized": True}


def with_continuation(
    module: torch.fx.GraphModule, contiguous: bool = False
) -> torch.fx.GraphModule:
    """A graph that calls its continuation; the same graph if it needs none. With
    `contiguous` no caller permutes the results: each is contiguous as it is."""
    name_sizes(module)
    if not any(map(_decides, module.graph.nodes)):
        return module
    if any(is_order(node.target) for node in module.graph.nodes):
        raise Unsupported(f"{DATA_DEPENDENT}, in a graph with waits or events")
    return _Cut(module, contiguous).outer()


class _Cut:
    """The parts of a graph: what runs first, and the continuation."""

    def __init__(self, module: torch.fx.GraphModule, contiguous: bool) -> None:
        self.module = module
        self.contiguous = contiguous
        self.sizes = RunSizes(module.graph)
        self.handles: set[Node] = set()  # tensors with sizes that only the run knows
        self.items: dict[Node, Node] = {}  # numbers, and the tensors that hold them
        self.late: dict[Node, None] = {}
        for node in module.graph.nodes:
            self._take(node)

    def _take(self, node: Node) -> None:
        if node.op != "call_function" or _writes_input(node):
            return
        if node.target is operator.getitem and node.args[0] not in self.late:
            self._note(node)
        elif self._depends(node) or self._must_follow(node):
            self.late[node] = None
        elif node.target is _ITEM:
            self.items[node] = node.all_input_nodes[0]
        elif isinstance(node.target, torch._ops.OpOverload):
            self._note(node)
        elif (
            node.meta.get("unbacked_bindings")
            and isinstance(node.target, torch._ops.HigherOrderOperator)
            and node.target not in (COND, INVOKE)
        ):
            raise Unsupported(DATA_DEPENDENT)

    def _note(self, node: Node) -> None:
        value = node.meta.get("val")
        if not isinstance(value, torch.Tensor | _NUMBERS):
            return
        if self.sizes.is_unknown(value):
            if isinstance(value, _NUMBERS):
                raise Unsupported(f"{DATA_DEPENDENT}: {node.name} is a number")
            self.handles.add(node)

    def _depends(self, node: Node) -> bool:
        return any(
            source in self.late or source in self.handles or source in self.items
            for source in node.all_input_nodes
        )

    def _must_follow(self, node: Node) -> bool:
        """Whether the node keeps its place after others that draw random numbers or
        have effects."""
        return not _is_pure(node) and any(not _is_pure(late) for late in self.late)

    # The graph around the continuation

    def outer(self) -> torch.fx.GraphModule:
        graph = torch.fx.Graph()
        made: dict[Node, Node] = {}
        last = []
        for node in self.module.graph.nodes:
            if node in self.late or node in self.items or self._names_late(node):
                continue
            if node.op == "output" or _writes_input(node):
                last.append(node)
            else:
                made[node] = graph.node_copy(node, made.__getitem__)
        results = self._results(last)
        if results or any(map(_is_needed, self.late)):
            self._call(graph, made, results)
        for node in last:
            for source in node.all_input_nodes:
                if source not in made:
                    raise Unsupported(f"{DATA_DEPENDENT}, and the graph returns it")
            made[node] = graph.node_copy(node, made.__getitem__)
        return torch.fx.GraphModule(self.module, graph)

    def _results(self, last: Iterable[Node]) -> list[Node]:
        read = dict.fromkeys(source for node in last for source in node.all_input_nodes)
        results = [node for node in read if node in self.late]
        for node in results:
            value = node.meta.get("val")
            if not isinstance(value, torch.Tensor):
                raise Unsupported(f"{DATA_DEPENDENT}, and the graph returns a number")
            if self._order_of(node) is None:
                raise Unsupported(f"{DATA_DEPENDENT}, and a result overlaps itself")
        return results

    def _call(
        self, graph: torch.fx.Graph, made: dict[Node, Node], results: list[Node]
    ) -> None:
        inside = torch.fx.Graph()
        moved: dict[Node, Node] = {}
        given, again = self._given()
        operands: list[Any] = []
        for node in given:
            moved[node] = inside.placeholder(node.name)
            moved[node].meta["val"] = node.meta["val"]
            operands.append(self._operand(graph, made, node))
        for symbol in self._missing(moved):
            inside.placeholder(f"size_{symbol}").meta["val"] = symbol
            operands.append(symbol)
        for node in (*again, *self.late):
            moved[node] = inside.node_copy(node, moved.__getitem__)
        ends = [self._laid_out(inside, moved[node], node) for node in results]
        end = inside.output(tuple(ends))
        end.meta["val"] = tuple(node.meta["val"] for node in ends)
        call = graph.call_function(call_continuation, tuple(operands))
        call.meta |= {
            "val": end.meta["val"],
            GRAPH: torch.fx.GraphModule(self.module, inside),
            "stack_trace": next(iter(self.late)).meta.get("stack_trace"),
        }
        for place, node in enumerate(results):
            made[node] = graph.call_function(operator.getitem, (call, place))
            made[node].meta = {**node.meta, "val": ends[place].meta["val"]}
            if (order := self._order_of(node)) and order != sorted(order):
                made[node].meta[PERMUTED] = [order.index(dim) for dim in sorted(order)]

    def _order_of(self, node: Node) -> list[int] | None:
        """The order of the result's dimensions in memory, slowest first. A size that
        only the run knows makes strides that the program does not know."""
        value = node.meta["val"]
        if self.contiguous or not self.sizes.is_unknown(value):
            return []
        if foreign_strides(value) is None:
            return []
        return memory_order(value.shape, value.stride())

    def _laid_out(self, inside: torch.fx.Graph, made: Node, node: Node) -> Node:
        """The result with its dimensions in the order of the memory."""
        order = self._order_of(node)
        if not order:
            return made
        permuted = inside.call_function(aten.permute.default, (made, order))
        permuted.meta = {**node.meta, "val": node.meta["val"].permute(order)}
        return permuted

    def _names_late(self, node: Node) -> bool:
        """Whether the node names a subgraph that only the continuation runs."""
        return _names_subgraph(node) and all(user in self.late for user in node.users)

    def _given(self) -> tuple[list[Node], list[Node]]:
        """The continuation's arguments, and nodes that are copied into it: those that name
        subgraphs, and those that make relations and floats of what it gets."""
        read: set[Node] = set()
        todo = list(self.late)
        while todo:
            for node in todo.pop().all_input_nodes:
                if node in self.late or node in read:
                    continue
                read.add(node)
                if self._is_made_again(node):
                    todo.append(node)
        ordered = [node for node in self.module.graph.nodes if node in read]
        again = list(filter(self._is_made_again, ordered))
        return [node for node in ordered if node not in again], again

    def _is_made_again(self, node: Node) -> bool:
        if node.op != "call_function" or node in self.items:
            return _names_subgraph(node)
        return isinstance(node.meta.get("val"), torch.SymFloat | torch.SymBool)

    def _operand(
        self, graph: torch.fx.Graph, made: dict[Node, Node], node: Node
    ) -> Node:
        """The continuation's argument for a value: for a number the tensor that holds it,
        of a float one in f64."""
        if node not in self.items:
            return made[node]
        tensor = made[self.items[node]]
        value = tensor.meta["val"]
        if not value.dtype.is_floating_point or value.dtype is torch.float64:
            return tensor
        target = torch.ops.prims.convert_element_type.default
        wide = graph.call_function(target, (tensor, torch.float64))
        shape = [1] * value.dim()
        wide.meta = {**node.meta, "val": torch.empty(shape, dtype=torch.float64)}
        wide.meta["unbacked_bindings"] = {}
        return wide

    def _missing(self, moved: dict[Node, Node]) -> list[torch.SymInt]:
        """The sizes that the continuation uses, and that no input is or has."""
        needed: dict[str, torch.SymInt] = {}
        for node in (*self.late, *moved):
            for number in numbers_of(node.meta.get("val")):
                for symbol in number.node.expr.free_symbols:
                    env = number.node.shape_env
                    needed[symbol.name] = env.create_symintnode(symbol, hint=None)
        for node in moved:
            value = node.meta["val"]
            for size in value.shape if isinstance(value, torch.Tensor) else [value]:
                if isinstance(size, torch.SymInt) and size.node.expr.is_Symbol:
                    needed.pop(size.node.expr.name, None)
        # A result in the continuation defines the symbols that are still unknown.
        known = [name for name, n in needed.items() if not self.sizes.is_unknown(n)]
        return [needed[name] for name in sorted(known)]


def _decides(node: Node) -> bool:
    """Whether the node decides a size or a number. PyTorch leaves the symbols of nodes in
    subgraphs out of their `meta`."""
    return bool(node.meta.get("unbacked_bindings")) or (
        isinstance(node.target, torch._ops.OpOverload)
        and any(tag in node.target.tags for tag in _DECIDING)
        and bool(_unbacked(node) or node.target is _ITEM)
    )


def _names_subgraph(node: Node) -> bool:
    return node.op == "get_attr" and not isinstance(node.meta.get("val"), torch.Tensor)


def _writes_input(node: Node) -> bool:
    return node.target is torch.ops.aten.copy_.default


def _is_pure(node: Node) -> bool:
    target: Any = node.target
    return not isinstance(target, torch._ops.OpOverload) or (
        purity.tells_effects(target)
        and torch.Tag.nondeterministic_seeded not in target.tags
    )


def _is_needed(node: Node) -> bool:
    """Whether the node is there for what it does: it checks a number, or has an effect."""
    return node.target is torch.ops.aten._assert_scalar.default or not _is_pure(node)


def _unbacked(node: Node) -> set[Any]:
    value = node.meta.get("val")
    values = value if isinstance(value, tuple | list) else [value]
    numbers = [item for item in values if isinstance(item, torch.Tensor | _NUMBERS)]
    return set().union(*map(free_unbacked_symbols, numbers))
