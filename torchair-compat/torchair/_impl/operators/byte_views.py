"""Keeps scales of float8_e8m0fnu bytes inside of a graph: the compiler has no such dtype.

Before: %s = aten.view.dtype(%bytes, float8_e8m0fnu); %t = aten.permute(%s, [1, 0, 2])
        %u = aten.view.dtype(%t, uint8)
After:  %u = aten.permute(%bytes, [1, 0, 2])"""

from __future__ import annotations

import torch
import torch.fx
from torch.fx import Node

__all__ = ["keep_bytes"]

aten = torch.ops.aten

# Operators that move elements and read none: their first argument is the tensor.
_MOVES = frozenset(
    (
        aten.alias.default,
        aten.clone.default,
        aten.expand.default,
        aten.permute.default,
        aten.reshape.default,
        aten.select.int,
        aten.slice.Tensor,
        aten.squeeze.default,
        aten.squeeze.dim,
        aten.squeeze.dims,
        aten.t.default,
        aten.transpose.int,
        aten.unsqueeze.default,
        aten.view.default,
        aten._unsafe_view.default,
    )
)


def keep_bytes(module: torch.fx.GraphModule) -> bool:
    """Moves bytes in the place of scales where only bytes go in and come out. Returns
    whether there was such a place."""
    found: dict[Node, Node] = {}  # the bytes of a node of scales
    changed = False
    for node in list(module.graph.nodes):
        source = node.args[0] if node.args else None
        if node.op != "call_function" or not isinstance(source, Node):
            continue
        if node.target is aten.view.dtype:
            if node.args[1] == torch.float8_e8m0fnu and _is_bytes(source):
                found[node] = source
            elif node.args[1] == torch.uint8 and source in found:
                node.replace_all_uses_with(found[source])
                changed = True
        elif node.target in _MOVES and source in found:
            found[node] = _moved(node, found[source])
    if found:
        module.graph.eliminate_dead_code()
        module.recompile()
    return changed


def _is_bytes(node: Node) -> bool:
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and value.dtype == torch.uint8


def _moved(node: Node, source: Node) -> Node:
    """The node of the bytes, after the node of the scales."""
    graph = node.graph
    with graph.inserting_after(node):
        made = graph.call_function(
            node.target, (source, *node.args[1:]), dict(node.kwargs)
        )
    made.meta = dict(node.meta)
    made.meta["val"] = node.meta["val"].view(torch.uint8)
    return made
