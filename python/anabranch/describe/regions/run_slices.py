"""Says how many elements a slice has whose bounds the run decides.

PyTorch gives such a slice a size of its own, of which nobody knows anything before the
slice is made. Here the size is an expression of the bounds, so the slice is a view in the
continuation, as one between known bounds:

    Before: %n = item(%m);  %y = slice(%x, 0, 0, %n)     %y: [u1]
    After:  %n = item(%m);  %last = bound(%n, 20)
            %y = slice(%x, 0, 0, %last)                  %y: [%last]
"""

from __future__ import annotations

from typing import Any

import sympy
import torch
import torch.fx
from torch.fx import Node
from torch.utils._sympy.symbol import SymT, symbol_is_type

aten = torch.ops.aten


def bound(index: Any, size: Any) -> Any:
    """The place between 0 and `size` that a bound of a slice means: one below zero
    counts from the end."""
    is_negative = torch.sym_min(1, torch.sym_max(0, -index))
    place = index + size * is_negative
    return torch.sym_min(size, torch.sym_max(0, place))


def name_sizes(module: torch.fx.GraphModule) -> None:
    """Gives the slices of the graph their sizes, for all readers of their symbols."""
    for node in module.graph.find_nodes(op="call_function", target=aten.slice.Tensor):
        if node.meta.get("unbacked_bindings"):
            _name_size(module.graph, node)


def _name_size(graph: torch.fx.Graph, node: Node) -> None:
    named = dict(zip(("self", "dim", "start", "end", "step"), node.args)) | node.kwargs
    source, step = named["self"], named.get("step", 1)
    value, whole = node.meta["val"], source.meta["val"]
    dim = named.get("dim", 0) % whole.dim()
    size = whole.shape[dim]
    if not isinstance(step, int) or not isinstance(value.shape[dim], torch.SymInt):
        return
    with graph.inserting_before(node):
        end = named.get("end")
        first = _bound(graph, source, dim, named.get("start") or 0)
        last = _bound(graph, source, dim, size if end is None else end)
    low, high = _value(first), _value(last)
    length = high if isinstance(low, int) and low == 0 else torch.sym_max(high - low, 0)
    count = (length + step - 1) // step
    _replace(value.shape[dim], count)
    offset = whole.storage_offset() + low * whole.stride()[dim]
    _replace(value.storage_offset(), offset)
    node.args, node.kwargs = (source, dim, first, last, step), {}
    del node.meta["unbacked_bindings"]


def _bound(graph: torch.fx.Graph, source: Node, dim: int, index: Any) -> Any:
    """The place that the index means, as a node if it is no number."""
    size = source.meta["val"].shape[dim]
    value = _value(index)
    if isinstance(value, int) and value == 0:
        return 0
    if isinstance(value, int) and isinstance(size, int):
        return bound(value, size)
    whole = size
    if isinstance(size, torch.SymInt):
        whole = graph.call_function(aten.sym_size.int, (source, dim))
        whole.meta["val"] = size
    if index is size:
        return whole
    made = graph.call_function(bound, (index, whole))
    made.meta["val"] = bound(value, size)
    return made


def _value(index: Any) -> Any:
    return index.meta["val"] if isinstance(index, Node) else index


def _replace(symbol: Any, found: Any) -> None:
    """Puts the number in the place of a symbol that only the slice defines."""
    if not isinstance(symbol, torch.SymInt) or not symbol.node.expr.is_Symbol:
        return
    expr = found.node.expr if isinstance(found, torch.SymInt) else sympy.Integer(found)
    name, env = symbol.node.expr, symbol.node.shape_env
    if symbol_is_type(name, SymT.UNBACKED_INT) and name not in expr.free_symbols:
        # ShapeEnv's own method asks for ranges that it cannot derive here.
        env.replacements[name] = expr
        env._replacements_version_counter += 1
        env._update_version_counter()
