"""Lets the trips of a loop update what they carry where it lies.

A body that changes a part of a carried tensor, as a cache of keys, would copy the rest of
it in each trip:

    Before: body(cache, place, x)  return index_copy(cache, 0, place, x), place + 1
    After:  body(cache, place, x)  copy_(cache, index_copy(cache, 0, place, x))
                                   return place + 1

To the graph around it the loop is a call that writes an argument (writing_calls.py): where
the first value is needed later, it is copied before. docs/design/regions.md."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import torch
import torch.fx
from torch.fx import Node

from .. import auto_functionalized
from ..tensors import describe

aten = torch.ops.aten

# Operators whose result is their first argument, but for a part.
_CHANGES_A_PART = {
    aten.index_add.default,
    aten.index_copy.default,
    aten.index_fill.int_Scalar,
    aten.index_fill.int_Tensor,
    aten.index_put.default,
    aten._unsafe_index_put.default,
    aten.index_reduce.default,
    aten.masked_scatter.default,
    aten.scatter.src,
    aten.scatter.value,
    aten.scatter.reduce,
    aten.scatter.value_reduce,
    aten.scatter_add.default,
    aten.scatter_reduce.two,
    aten.select_scatter.default,
    aten.slice_scatter.default,
    aten.diagonal_scatter.default,
}

_SAME_VALUE = {aten.alias.default, aten.clone.default}

_VIEWS = {
    aten.alias.default,
    aten.view.default,
    aten._unsafe_view.default,
    aten.unsqueeze.default,
    aten.squeeze.dim,
    aten.squeeze.dims,
    aten.select.int,
    aten.slice.Tensor,
}


def find(
    body: torch.fx.GraphModule,
    first: Sequence[torch.Tensor],
    last: Sequence[torch.Tensor],
) -> list[bool]:
    """Whether each of the carried values may be updated: the body returns its argument of
    the same number, unchanged or changed in parts. `first` are the values before the
    loop, `last` begins with those after it."""
    arguments = body.graph.find_nodes(op="placeholder")[: len(first)]
    returned: Any = body.graph.output_node().args[0]
    shown = [_viewed(value) for value in returned]
    return [
        # Another result that is the old value would have to be copied before.
        _origin(returned[number]) is argument
        and shown.count(argument) == (shown[number] is argument)
        # A memory has one type.
        and describe(before) == describe(after)
        and _is_contiguous(argument)
        for number, (argument, before, after) in enumerate(zip(arguments, first, last))
    ]


def with_writes(
    body: torch.fx.GraphModule, updates: Sequence[bool]
) -> torch.fx.GraphModule:
    """The body that writes these of its carried values, and does not return them."""
    if not any(updates):
        return body
    graph = torch.fx.Graph()
    copies: dict[Node, Node] = {}
    returned = graph.graph_copy(body.graph, copies)
    assert isinstance(returned, Sequence)
    arguments = graph.find_nodes(op="placeholder")
    kept = list(returned[len(updates) :])
    for number in reversed(range(len(updates))):
        if not updates[number]:
            kept.insert(0, returned[number])
            continue
        pair = arguments[number], returned[number]
        graph.call_function(aten.copy_.default, pair).meta = dict(
            arguments[number].meta
        )
    graph.output(tuple(kept)).meta = dict(body.graph.output_node().meta)
    return torch.fx.GraphModule(body, graph)


def add_writes(
    entry: dict[str, Any], updates: Sequence[bool], olds: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Describes what a loop updates as memories that it writes, which had the values
    `olds`. The new values follow the loop's other results. Returns how the description
    refers to each item of the loop's node."""
    results = entry["results"]
    is_new = [*updates, *[False] * (len(results) - len(updates))]
    order = sorted(range(len(results)), key=is_new.__getitem__)
    entry["results"] = [results[number] for number in order]
    entry["writes"] = olds
    return [
        {"ref": entry["name"], "result": order.index(number)}
        for number in range(len(results))
    ]


def _is_contiguous(argument: Node) -> bool:
    value = argument.meta.get("val")
    return isinstance(value, torch.Tensor) and value.is_contiguous()


def _viewed(value: Any) -> Any:
    """The node whose memory a value shows."""
    while isinstance(value, Node) and value.target in _VIEWS:
        value = value.args[0]
    return value


def _origin(value: Any) -> Any:
    """The node of which a value is a changed version of the same shape."""
    while isinstance(value, Node):
        if value.target in _CHANGES_A_PART or value.target in _SAME_VALUE:
            value = value.args[0]
        elif (written := _written_by_operator(value)) is not None:
            value = written
        else:
            break
    return value


def _written_by_operator(value: Node) -> Node | None:
    """The old value of what an operator of a user writes."""
    if value.target is not operator.getitem:
        return None
    call, index = value.args
    if not isinstance(call, Node) or not auto_functionalized.is_writing(call):
        return None
    if not auto_functionalized.is_plain(call):
        return None
    described = auto_functionalized.read(call)
    place = described.places[index]
    if not isinstance(place, auto_functionalized.Item) or place.memory < 0:
        return None
    return described.memories[place.memory].old
