"""Turns numbers into tensors of one element where a number has no place in a program.

A graph may return a number that the run decides, and a region may carry or return
numbers. A program returns, carries and keeps tensors:

    return u0                             return scalar_tensor(u0), and the caller
                                            reads its item
    %n = while_loop(c, b, (0, %x))[0]     %t = while_loop(c', b', (scalar_tensor(0), %x))[0]
                                          %n = _local_scalar_dense(%t)

c' and b' read the item of what they get. A body's number is a tensor, too, when the
body returns it. `continuation.py` takes the items from there. docs/design/regions.md."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.fx
from torch.fx import Node
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

COND = torch.ops.higher_order.cond
WHILE = torch.ops.higher_order.while_loop
INVOKE = torch.ops.higher_order.invoke_subgraph

# The key in the `meta` of a tensor whose item the caller of the graph wants.
RETURNED = "anabranch_number"

_SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)
_ITEM = torch.ops.aten._local_scalar_dense.default
_MAKE = torch.ops.aten.scalar_tensor.default


def with_tensors(
    module: torch.fx.GraphModule, is_region: bool = False
) -> torch.fx.GraphModule:
    """The graph with tensors in the place of such numbers; the same graph if it has
    none. A region keeps what it returns: the graph around it has changed that."""
    loops = [node for node in module.graph.nodes if _has_numbers(node)]
    if not loops and (is_region or not _returned(module.graph.output_node())):
        return module
    graph = torch.fx.Graph()
    copies: dict[Node, Node] = {}
    end = graph.graph_copy(module.graph, copies)
    graph.output(end).meta = dict(module.graph.output_node().meta)
    changed = torch.fx.GraphModule(module, graph)
    for node in loops:
        _convert(changed, copies[node])
    if not is_region:
        for number in _returned(graph.output_node()):
            _return_tensor(graph, number)
    return changed


def dtype_of(value: Any) -> torch.dtype:
    """The dtype of a tensor that holds the number."""
    if isinstance(value, bool | torch.SymBool):
        return torch.bool
    return torch.float64 if isinstance(value, float | torch.SymFloat) else torch.int64


def _is_number(value: Any) -> bool:
    return isinstance(value, (bool, int, float, *_SYMBOLIC))


# Numbers that the graph returns


def _returned(end: Node) -> list[Node]:
    """The numbers that the run decides among a graph's results."""
    inputs = end.graph.find_nodes(op="placeholder")
    known = set().union(*(_unbacked(node.meta.get("val")) for node in inputs))
    return [
        node
        for node in end.all_input_nodes
        if node.op != "placeholder" and _unbacked(node.meta.get("val")) - known
        if isinstance(node.meta["val"], _SYMBOLIC)
    ]


def _unbacked(value: Any) -> set[Any]:
    kinds = (torch.Tensor, *_SYMBOLIC)
    return set(free_unbacked_symbols(value)) if isinstance(value, kinds) else set()


def _return_tensor(graph: torch.fx.Graph, number: Node) -> None:
    end = graph.output_node()
    with graph.inserting_before(end):
        made = _tensor(graph, number)
    made.meta[RETURNED] = True
    end.replace_input_with(number, made)


# Numbers of regions


def _has_numbers(node: Node) -> bool:
    """Whether a branch returns numbers, or a loop carries some or ends by one."""
    if node.target is COND:
        return any(map(_is_number, node.meta["val"]))
    if node.target is not WHILE:
        return False
    condition = node.graph.owning_module.get_submodule(str(node.args[0].target))
    ends = _flat(condition.graph.output_node().args[0])
    return any(map(_is_number, node.meta["val"])) or _is_number(_value(ends[0]))


def _convert(module: torch.fx.GraphModule, node: Node) -> None:
    """Gives the node tensors for its numbers, and its users the items of its results."""
    values = list(node.meta["val"])
    places = [place for place, value in enumerate(values) if _is_number(value)]
    if node.target is COND:
        for subgraph in node.args[1:3]:
            _replace(module, subgraph, lambda body: _returning(body, places))
    else:
        condition, body, carried, operands = node.args
        with node.graph.inserting_before(node):
            first = [_as_tensor(node.graph, value) for value in carried]
        node.args = (condition, body, tuple(first), operands)
        _replace(module, condition, lambda body: _returning(_taking(body, places), [0]))
        _replace(module, body, lambda body: _returning(_taking(body, places), places))
    for place in places:
        values[place] = _example(values[place])
    node.meta["val"] = tuple(values)
    for user in list(node.users):
        if user.target is operator.getitem and user.args[1] in places:
            _read_item(user)
    _forget_numbers(node)


def _forget_numbers(node: Node) -> None:
    """Leaves symbols to the node that the sizes of its results define."""
    bound = node.meta.get("unbacked_bindings") or {}
    sizes = set().union(*map(_unbacked, node.meta["val"]))
    node.meta["unbacked_bindings"] = {s: p for s, p in bound.items() if s in sizes}


def _replace(
    module: torch.fx.GraphModule,
    reference: Node,
    change: Callable[[torch.fx.GraphModule], torch.fx.GraphModule],
) -> None:
    """Changes the subgraph that `reference` names. Other nodes may name it, too."""
    name = (
        f"{reference.target}_{reference.graph._graph_namespace.create_name('t', None)}"
    )
    old = module.get_submodule(str(reference.target))
    copied = torch.fx.Graph()
    copied.output(copied.graph_copy(old.graph, {})).meta = dict(
        old.graph.output_node().meta
    )
    setattr(module, name, change(torch.fx.GraphModule(old, copied)))
    reference.target = name


def _taking(body: torch.fx.GraphModule, places: Sequence[int]) -> torch.fx.GraphModule:
    """Makes tensors of the inputs at these places."""
    inputs = body.graph.find_nodes(op="placeholder")
    for place in places:
        _read_item(inputs[place], inputs[-1])
    return body


def _returning(
    body: torch.fx.GraphModule, places: Sequence[int]
) -> torch.fx.GraphModule:
    """Makes tensors of the results at these places."""
    end = body.graph.output_node()
    results = list(_flat(end.args[0]))
    with body.graph.inserting_before(end):
        for place in places:
            results[place] = _as_tensor(body.graph, results[place])
    end.args = (tuple(results),)
    return body


def _read_item(tensor: Node, after: Node | None = None) -> None:
    """Makes a tensor of a number's node. Its readers read the item."""
    readers = list(tensor.users)
    value, graph = tensor.meta["val"], tensor.graph
    with graph.inserting_after(after or tensor):
        item = graph.call_function(_ITEM, (tensor,))
    item.meta = dict(tensor.meta) | {"unbacked_bindings": _bindings(value)}
    for reader in readers:
        reader.replace_input_with(tensor, item)
    tensor.meta = tensor.meta | {"val": _example(value), "unbacked_bindings": {}}


def _bindings(value: Any) -> dict[Any, Any]:
    return {symbol: () for symbol in _unbacked(value)}


# Tensors of numbers


def _as_tensor(graph: torch.fx.Graph, value: Any) -> Any:
    return _tensor(graph, value) if _is_number(_value(value)) else value


def _tensor(graph: torch.fx.Graph, number: Any) -> Node:
    """A tensor that holds the number, at the place where the graph inserts nodes."""
    value, meta = _value(number), getattr(number, "meta", {})
    if isinstance(value, torch.SymBool):
        chosen = graph.call_function(torch.sym_ite, (number, 1, 0))
        chosen.meta = {**meta, "val": torch.sym_ite(value, 1, 0)}
        number = chosen
    made = graph.call_function(_MAKE, (number,), {"dtype": dtype_of(value)})
    made.meta = {**meta, "val": _example(value), "unbacked_bindings": {}}
    return made


def _example(value: Any) -> torch.Tensor:
    return torch.empty((), dtype=dtype_of(value))


def _value(value: Any) -> Any:
    return value.meta.get("val") if isinstance(value, Node) else value


def _flat(results: Any) -> Sequence[Any]:
    return results if isinstance(results, tuple | list) else (results,)
