"""Lets regions update their arguments where they lie.

A body that changes a part of a carried tensor, as a cache of keys, would copy the rest of
it in each trip, and so would a branch:

    Before: body(cache, place, x)  return index_copy(cache, 0, place, x), place + 1
    After:  body(cache, place, x)  copy_(cache, index_copy(cache, 0, place, x))
                                   return place + 1

To the graph around it the loop, or the branch, is a call that writes an argument
(writing_calls.py): where the first value is needed later, it is copied before.
docs/design/regions.md."""

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

# Which arguments are updated: the result that is the new value, and the argument.
Updates = dict[int, int]


def find(
    bodies: Sequence[torch.fx.GraphModule],
    before: Sequence[Any],
    after: Sequence[torch.Tensor],
) -> Updates:
    """The arguments that may be updated: each body returns its own, unchanged or changed
    in parts. `before` are the values of the first arguments outside, `after` those of the
    results."""
    found: Updates = {}
    for result, value in enumerate(after):
        changed = {_changed_argument(body, result) for body in bodies}
        number = changed.pop()
        if changed or number is None or number >= len(before):
            continue
        # A memory has one type, and one new value.
        old = before[number]
        is_same = isinstance(old, torch.Tensor) and describe(old) == describe(value)
        if is_same and number not in found.values():
            found[result] = number
    return found


def _changed_argument(body: torch.fx.GraphModule, result: int) -> int | None:
    """The number of the argument of which the result is a changed version."""
    arguments = body.graph.find_nodes(op="placeholder")
    returned: Any = body.graph.output_node().args[0]
    argument = _origin(returned[result])
    if argument not in arguments or not _is_contiguous(argument):
        return None
    # Another result that is the old value would have to be copied before.
    shown = [_viewed(value) for value in returned]
    if shown.count(argument) != (shown[result] is argument):
        return None
    return arguments.index(argument)


def with_writes(body: torch.fx.GraphModule, updates: Updates) -> torch.fx.GraphModule:
    """The body that writes these arguments, and does not return their new values."""
    if not updates:
        return body
    graph = torch.fx.Graph()
    copies: dict[Node, Node] = {}
    returned = graph.graph_copy(body.graph, copies)
    assert isinstance(returned, Sequence)
    arguments = graph.find_nodes(op="placeholder")
    for result, number in updates.items():
        argument = arguments[number]
        write = graph.call_function(aten.copy_.default, (argument, returned[result]))
        write.meta = dict(argument.meta)
    kept = [value for place, value in enumerate(returned) if place not in updates]
    graph.output(tuple(kept)).meta = dict(body.graph.output_node().meta)
    return torch.fx.GraphModule(body, graph)


def add_writes(
    entry: dict[str, Any], updates: Updates, olds: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Describes what regions update as memories that their call writes, which had the
    values `olds`. The new values follow the other results. Returns how the description
    refers to each item of the call's node."""
    results = entry["results"]
    order = sorted(range(len(results)), key=updates.__contains__)
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
