"""Shows concatenations in a captured graph as the compiler makes them: each part is
written to its place in the joined tensor.

    Before: %a = aten.sin(%x); %b = aten.exp(%y); %c = aten.cat([%a, %b])
    After:  %c = aten.empty([5, 4]); %s = aten.slice(%c, 0, 0, 2); aten.sin(%x, out=%s);
            %t = aten.slice(%c, 0, 2, 5); aten.exp(%y, out=%t)"""

from __future__ import annotations

from typing import Any

import torch
import torch.fx
from torch._ops import OpOverload
from torch.fx import Node

from ..log import logger
from ..marks.attributes import tag_of

__all__ = ["with_buffers"]

aten = torch.ops.aten


def with_buffers(module: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """A copy of the graph in which concatenations over dimension 0 are buffers that the
    parts are written to. The log says which concatenations stay, and why."""
    graph = torch.fx.Graph()
    graph.output(graph.graph_copy(module.graph, {}))
    made = torch.fx.GraphModule(module, graph)
    found = graph.find_nodes(op="call_function", target=aten.cat.default)
    if not found:
        return made
    logger.debug("[remove_cat_ops] Found %d cat node(s)", len(found))
    count = 0
    for node in found:
        why = _refusal(node)
        if why:
            logger.debug("[remove_cat_ops] Skip %s: %s", node.name, why)
            continue
        logger.debug("[remove_cat_ops] Optimizing %s", node.name)
        _replace(node)
        count += 1
    logger.debug("remove_cat_ops: Optimized %d cat node(s)", count)
    graph.eliminate_dead_code()
    made.recompile()
    return made


def _parts(node: Node) -> list[Node]:
    return [part for part in node.args[0] if isinstance(part, Node)]  # type: ignore[union-attr]


def _refusal(node: Node) -> str:
    """Why the parts cannot be written to their places; "" if they can."""
    dim = node.args[1] if len(node.args) > 1 else node.kwargs.get("dim", 0)
    if dim != 0:
        return f"dim {dim} is not 0"
    parts = _parts(node)
    if len(parts) < 2:
        return "it joins less than two tensors"
    if len(set(parts)) < len(parts):
        return "a tensor is joined twice"
    if not all(isinstance(size, int) for size in node.meta["val"].shape):
        return "sizes are symbolic"
    for part in parts:
        why = _refused_part(node, part)
        if not why and tag_of(part) != tag_of(node):
            why = "is made on another stream"
        if why:
            return f"{part.name} {why}"
    return ""


def _refused_part(node: Node, part: Node) -> str:
    if not isinstance(part.target, OpOverload):
        return "is no result of an operator"
    if any(one.alias_info for one in part.target._schema.returns):
        return "is a view"
    if set(part.users) != {node}:
        return "is shared"
    if _with_out(part.target) is None:
        return f"is made by {part.target}, which has no form with out="
    if part.meta["val"].dtype != node.meta["val"].dtype:
        return f"is {part.meta['val'].dtype}"
    return ""


def _with_out(target: OpOverload) -> OpOverload | None:
    """The overload that takes the same arguments and a tensor to write to."""
    wanted = [(spec.name, str(spec.type)) for spec in target._schema.arguments]
    packet = target.overloadpacket
    for name in packet.overloads():
        other: OpOverload = getattr(packet, name)
        given = [(s.name, str(s.type)) for s in other._schema.arguments]
        if given == [*wanted, ("out", "Tensor")]:
            return other
    return None


def _replace(node: Node) -> None:
    graph, parts = node.graph, set(_parts(node))
    value = node.meta["val"]
    first = next(other for other in graph.nodes if other in parts)
    with graph.inserting_before(first):
        buffer = _call(
            node,
            aten.empty.memory_format,
            ([*value.shape],),
            {"dtype": value.dtype, "device": value.device},
        )
    start = 0
    for part in _parts(node):
        end = start + part.meta["val"].shape[0]
        _write(part, buffer, start, end)
        start = end
    node.replace_all_uses_with(buffer)
    graph.erase_node(node)


def _write(part: Node, buffer: Node, start: int, end: int) -> None:
    assert isinstance(part.target, OpOverload)
    with part.graph.inserting_before(part):
        place = _call(part, aten.slice.Tensor, (buffer, 0, start, end), {})
    target = _with_out(part.target)
    assert target is not None
    part.target = target
    part.kwargs = {**part.kwargs, "out": place}


def _call(like: Node, target: Any, args: tuple[Any, ...], kwargs: Any) -> Node:
    made = like.graph.call_function(target, args, kwargs)
    made.meta = dict(like.meta)
    return made
