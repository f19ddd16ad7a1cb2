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
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols
from torch.utils._sympy.symbol import SymT, symbol_is_type

aten = torch.ops.aten

# The key in the `meta` of a slice whose bounds are places. A continuation has the slice
# again.
PLACED = "anabranch_placed"


def bound(index: Any, size: Any) -> Any:
    """The place between 0 and `size` that a bound of a slice means: one below zero
    counts from the end."""
    is_negative = torch.sym_min(1, torch.sym_max(0, -index))
    place = index + size * is_negative
    return torch.sym_min(size, torch.sym_max(0, place))


def length(first: Any, last: Any, step: int) -> Any:
    """How many elements there are from one place on and before another."""
    is_zero = isinstance(first, int) and first == 0
    count = last if is_zero else torch.sym_max(last - first, 0)
    return (count + step - 1) // step


def name_sizes(module: torch.fx.GraphModule) -> None:
    """Gives the slices of the graph their sizes, for all readers of their symbols."""
    for node in list(module.graph.nodes):
        if node.target is aten.slice.Tensor and node.meta.get("unbacked_bindings"):
            _name_size(module.graph, node)
        elif node.target is aten.slice_scatter.default:
            _place(module.graph, node, {}, 2)


def _name_size(graph: torch.fx.Graph, node: Node) -> None:
    found = _place(graph, node, node.meta["unbacked_bindings"], 1)
    if found is None:
        return
    dim, low, high, step = found
    value, whole = node.meta["val"], node.args[0].meta["val"]  # type: ignore[union-attr]
    _replace(value.shape[dim], length(low, high, step))
    offset = whole.storage_offset() + low * whole.stride()[dim]
    _replace(value.storage_offset(), offset)
    del node.meta["unbacked_bindings"]


def _place(
    graph: torch.fx.Graph, node: Node, always: Any, tensors: int
) -> tuple[int, Any, Any, int] | None:
    """Puts places in the place of bounds that the run decides. Returns the dimension, the
    places and the step; None: nothing was changed."""
    names = ("self", "src")[:tensors] + ("dim", "start", "end", "step")
    named: dict[str, Any] = dict(zip(names, node.args)) | dict(node.kwargs)
    source, step = named["self"], named.get("step", 1)
    whole = source.meta["val"]
    dim = named.get("dim", 0) % whole.dim()
    bounds = [named.get("start") or 0, named.get("end")]
    by_run = any(free_unbacked_symbols(_value(n)) for n in bounds if n is not None)
    if PLACED in node.meta or not isinstance(step, int) or not (always or by_run):
        return None
    node.meta[PLACED] = True
    if bounds[1] is None:
        bounds[1] = whole.shape[dim]
    with graph.inserting_before(node):
        first, last = (_bound(graph, source, dim, index) for index in bounds)
    node.args, node.kwargs = (*node.args[:tensors], dim, first, last, step), {}
    return dim, _value(first), _value(last), step


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
