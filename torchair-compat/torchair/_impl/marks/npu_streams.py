"""Translates streams and events of torch.npu in a graph to scopes, records and waits.

    Before: scope_enter(["_npu_stream"], ["7"]); %y = mm(%a, %b); event_record("3");
            scope_exit(); event_wait("3")
    After:  scope_enter(["_user_stream_label", ...], ["npu_stream_1", ...]);
            %y = mm(%a, %b); %r = record(); scope_exit(); wait([%r])

The names of torch.npu's objects differ from process to process. A graph gets names of
its own instead, so that equal programs have equal graphs."""

from __future__ import annotations

from typing import Any

import torch
import torch.fx

from .attributes import STREAM

__all__ = ["resolve_npu_streams"]

air = torch.ops.air

_NPU_STREAM = "_npu_stream"


def resolve_npu_streams(graph: torch.fx.Graph) -> None:
    """Edits the graph in place. New nodes lack `meta["val"]`."""
    _resolve_set_streams(graph)
    streams: dict[str, str] = {}
    events: dict[str, torch.fx.Node] = {}
    for node in list(graph.nodes):
        if node.target is air.scope_enter.default:
            _rename(node, streams)
        elif node.target is air.event_record.default:
            events[str(node.args[0])] = _replace(graph, node, air.record.default, ())
        elif node.target is air.event_wait.default:
            event = events.get(str(node.args[0]))
            if event is None:
                # An event that was recorded before this graph has happened: no wait is
                # needed.
                graph.erase_node(node)
            else:
                _replace(graph, node, air.wait.default, ([event],))


def _rename(node: torch.fx.Node, streams: dict[str, str]) -> None:
    keys, values = node.args[:2]
    if keys != [_NPU_STREAM]:
        return
    assert isinstance(values, list | tuple)
    name = str(values[0])
    label = streams.setdefault(name, f"npu_stream_{len(streams) + 1}") if name else ""
    node.args = (
        [STREAM, "_user_stream_priority", "_enable_inner_parallel"],
        [label, "0", "True"],
    )


def _resolve_set_streams(graph: torch.fx.Graph) -> None:
    """Makes a scope of `set_stream`: it lasts to the end of the scope around it."""
    is_set = [False]
    for node in list(graph.nodes):
        if node.target is air.stream_set.default:
            if is_set[-1]:
                _insert(graph, node, air.scope_exit.default, ())
            _replace(
                graph, node, air.scope_enter.default, ([_NPU_STREAM], [node.args[0]])
            )
            is_set[-1] = True
        elif node.target is air.scope_enter.default:
            is_set.append(False)
        elif node.target is air.scope_exit.default and len(is_set) > 1:
            if is_set.pop():
                _insert(graph, node, air.scope_exit.default, ())
        elif node.op == "output" and is_set[-1]:
            _insert(graph, node, air.scope_exit.default, ())


def _replace(
    graph: torch.fx.Graph, node: torch.fx.Node, target: Any, args: tuple[Any, ...]
) -> torch.fx.Node:
    made = _insert(graph, node, target, args)
    graph.erase_node(node)
    return made


def _insert(
    graph: torch.fx.Graph, before: torch.fx.Node, target: Any, args: tuple[Any, ...]
) -> torch.fx.Node:
    with graph.inserting_before(before):
        made = graph.call_function(target, args)
    made.meta = {key: value for key, value in before.meta.items() if key != "val"}
    return made
