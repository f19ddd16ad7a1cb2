"""Translates torch.Stream and torch.Event in a graph, as Dynamo captures them, to marks
of this package.

    Before: %y = mm(%a, %b) annotated {"stream": 1}; streams.record_event(2, 1);
            streams.wait_event(2, 0)
    After:  %y annotated {anabranch.stream: "torch.Stream 1"}; %r = record() on that stream;
            wait_event(%r)

Dynamo numbers the stream and event objects that one graph uses."""

from __future__ import annotations

from typing import Any

import torch
import torch.fx

from .scope import PRIORITY, RECORD, STREAM, WAIT_EVENT

_KEY = "stream"
_NAMESPACE = "streams"


def translate(module: torch.fx.GraphModule) -> None:
    """Edits the graph in place. New nodes lack `meta["val"]`."""
    graph = module.graph
    events: dict[Any, torch.fx.Node] = {}
    for node in list(graph.nodes):
        _mark(node)
        found = _call(module, node)
        if found is None:
            continue
        name, numbers = found
        if name == "record_event":
            events[numbers[0]] = _record(graph, node, numbers[1])
        elif name in ("wait_event", "sync_dealloc"):
            _wait(graph, node, events.get(numbers[0]), numbers[1])
        elif name == "wait_stream":
            _wait(graph, node, _record(graph, node, numbers[1]), numbers[0])
        _erase(graph, node)


def _call(
    module: torch.fx.GraphModule, node: torch.fx.Node
) -> tuple[str, list[Any]] | None:
    """The operator of torch.ops.streams that a node calls, and its numbers.

    AOTAutograd wraps the call into an operator that passes values on, so that later
    operators depend on the call.
    """
    # Compared by name, since PyTorch defines the operator only when it first needs it.
    if str(node.target) != "control_deps":
        name = _operator(node)
        return None if name is None else (name, list(node.args))
    inner = getattr(module, str(node.args[1].target))  # type: ignore[union-attr]
    calls = [(_operator(n), list(n.args)) for n in inner.graph.nodes if _operator(n)]
    assert len(calls) == 1, f"{node.name} calls {calls}"
    name, numbers = calls[0]
    assert name is not None
    return name, numbers


def _erase(graph: torch.fx.Graph, node: torch.fx.Node) -> None:
    """Erases a call. Readers of a value that the call passed on read the value itself."""
    for user in list(node.users):
        if getattr(user.target, "__name__", "") == "getitem":
            user.replace_all_uses_with(node.args[1 + user.args[1]])
            graph.erase_node(user)
        else:  # a later call passes the value on
            user.args = torch.fx.node.map_arg(
                user.args, lambda n: None if n is node else n
            )
    inner = [n for n in node.all_input_nodes if n.op == "get_attr"]
    graph.erase_node(node)
    for attribute in inner:
        if not attribute.users:
            graph.erase_node(attribute)


def _mark(node: torch.fx.Node) -> None:
    custom = node.meta.get("custom") or {}
    if _KEY not in custom:
        return
    custom = dict(custom)
    number = custom.pop(_KEY)
    if node.op == "call_function" and not _is_default(number):
        custom = {STREAM: _tag(number), PRIORITY: 0} | custom
    node.meta["custom"] = custom


def _operator(node: torch.fx.Node) -> str | None:
    """The name of an operator of torch.ops.streams; None for any other."""
    target = node.target
    if isinstance(target, torch._ops.OpOverload) and target.namespace == _NAMESPACE:
        return target._schema.name.partition("::")[2]
    return None


def _is_default(number: Any) -> bool:
    """Whether the number is the current stream's. It is 0 if the machine has an
    accelerator; on other machines Dynamo gives it no number."""
    return number == 0 and torch.accelerator.is_available()


def _tag(number: Any) -> str:
    return f"torch.Stream {number}"


def _record(graph: torch.fx.Graph, before: torch.fx.Node, stream: Any) -> torch.fx.Node:
    return _insert(graph, before, stream, RECORD, ())


def _wait(
    graph: torch.fx.Graph,
    before: torch.fx.Node,
    event: torch.fx.Node | None,
    stream: Any,
) -> None:
    """Inserts a wait for the event. If the event was recorded before this graph, it has
    happened, and no wait is needed."""
    if event is not None:
        target = WAIT_EVENT
        _insert(graph, before, stream, target, (event,))


def _insert(
    graph: torch.fx.Graph,
    before: torch.fx.Node,
    stream: Any,
    target: Any,
    args: tuple[Any, ...],
) -> torch.fx.Node:
    with graph.inserting_before(before):
        made = graph.call_function(target, args)
    made.meta = {key: value for key, value in before.meta.items() if key != "val"}
    made.meta["custom"] = (
        {}
        if _is_default(stream)
        else {
            STREAM: _tag(stream),
            PRIORITY: 0,
        }
    )
    return made
