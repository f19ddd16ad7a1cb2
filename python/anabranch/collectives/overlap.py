"""Begins the collectives of a graph early and waits for them late. Operators that do
not need their results run in between.

    before                   after
    y = all_reduce(x)        t = begin_all_reduce(x)   on the stream "communication"
    y = wait_tensor(y)       fence                     c comes after the begin
    z = y + 1                c = a @ b
    c = a @ b                fence                     z is not fused with c
                             y = finish(t)
                             z = y + 1

A collective that nothing can overlap with stays one call. Collectives, and other
operators with an effect, keep their order. So ranks whose graphs differ elsewhere still
call their collectives in the same order. docs/design/distributed.md."""

from __future__ import annotations

import heapq
import itertools
import operator
import re
from collections.abc import Sequence
from typing import Any

import torch
import torch.fx
from torch._ops import OpOverload
from torch.fx import Node

from .. import purity
from ..config import Config
from ..marks import scope
from . import operators
from .operators import is_collective, is_wait

__all__ = ["arrange"]

STREAM = "communication"
# Above the priority of unmarked streams: a transfer that begins late also ends late.
PRIORITY = 1

# How many collectives may be in flight. With two, the next one starts as soon as
# the first has ended; more would only keep memory.
IN_FLIGHT = 2

# Values that Python computes from sizes.
_NUMBERS = bool | int | float | torch.SymBool | torch.SymInt | torch.SymFloat

# Operators that take long enough to hide a transfer.
_HEAVY = re.compile(r"mm\b|_mm_|linear|convolution|attention")


def arrange(module: torch.fx.GraphModule, config: Config) -> None:
    """Rewrites a graph of ATen operators.

    A graph with scopes keeps the order that the scopes say. A graph whose sizes depend
    on data keeps its order too, since it is cut at fixed places.
    """
    graph = module.graph
    if not any(is_collective(node.target) for node in graph.nodes) or any(
        map(_is_fixed, graph.nodes)
    ):
        return
    order = _sunk(_Sorter(list(graph.nodes)).order)
    for node in order:
        graph.output_node().prepend(node)
    marked = config.streams == "marked" and not config.single_stream
    for node, (wait, fenced) in _worth_beginning(order).items():
        _part(node, wait, fenced, marked)
    module.recompile()


def _is_fixed(node: Node) -> bool:
    marks = map(str, node.meta.get("custom") or ())
    is_marked = any(mark.startswith("anabranch.") for mark in marks)
    return is_marked or "unbacked_bindings" in node.meta


def _part(node: Node, wait: Node, fenced: bool, marked: bool) -> None:
    """Splits a collective into a begin, and a finish before its first wait."""
    graph, value = node.graph, node.meta["val"]
    target = node.target
    assert isinstance(target, OpOverload)

    def call(target: OpOverload, args: Sequence[Any], **meta: object) -> Node:
        made = graph.call_function(target, tuple(args))
        made.meta |= {**node.meta, **meta}
        return made

    with graph.inserting_before(node):
        ticket = call(
            operators.begin(target), node.args, val=torch.empty(1, dtype=torch.int64)
        )
        if marked:
            ticket.meta["custom"] = {scope.STREAM: STREAM, scope.PRIORITY: PRIORITY}
        if fenced:
            call(scope.WAIT, (ticket, ticket), val=None)
    several = isinstance(value, tuple | list)
    items = list(node.users) if several else []
    with graph.inserting_before(wait):
        if fenced:
            call(scope.WAIT, (ticket, ticket), val=None)
        values = list(value) if several else [value]
        found = call(operators.finish(), (ticket,), val=values)
        if not several:
            found = graph.call_function(operator.getitem, (found, 0))
            found.meta |= node.meta
    node.replace_all_uses_with(found)
    for item in reversed(items):
        found.append(item)
    graph.erase_node(node)


def _source_of(wait: Node) -> Node | None:
    """The collective of this graph that a wait is for."""
    source = wait.args[0]
    assert isinstance(source, Node)
    if source.target is operator.getitem:
        source = source.all_input_nodes[0]
    return source if is_collective(source.target) else None


class _Sorter:
    """Orders the nodes. It takes them in the order of the program. A node that depends on
    a collective in flight has to wait until no other node can be taken."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.order: list[Node] = []
        self._nodes = nodes
        self._place = {node: place for place, node in enumerate(nodes)}
        self._in_flight: list[Node] = []
        # For each node: those that must follow it, and how many it must still follow.
        self._followers: dict[Node, list[Node]] = {}
        self._missing: dict[Node, int] = {}
        # The waits for a collective in flight that must follow nothing else.
        self._waits: dict[Node, list[Node]] = {}
        # The places of the nodes that can be taken: a heap.
        self._free: list[int] = []
        # The last node with an effect, which the next one must follow.
        self._last: Node | None = None
        begin = 0
        for place, node in enumerate(nodes):
            if _is_last(node):
                self._take_all(nodes[begin : place + 1])
                begin = place + 1
        self._take_all(nodes[begin:])

    def _take_all(self, nodes: Sequence[Node]) -> None:
        """Takes nodes up to one that no node before it may follow."""
        for node in nodes:
            self._link(node)
        for node in nodes:
            if not self._missing[node]:
                self._release(node)
        last = self._place[nodes[-1]] if nodes and _is_last(nodes[-1]) else None
        while self._free or self._in_flight:
            is_end = not self._free or self._free == [last]
            if self._in_flight and (is_end or self._must_arrive()):
                self._arrive()
            else:
                self._take(self._nodes[heapq.heappop(self._free)])

    def _link(self, node: Node) -> None:
        """Notes which nodes this one must follow. Nodes that are taken count no more."""
        sources = set(node.all_input_nodes)
        if _has_effect(node):
            if self._last is not None:
                sources.add(self._last)
            self._last = node
        if isinstance(node.meta.get("val"), _NUMBERS):
            sources = set()  # a size is known without the tensor
        missing = [source for source in sources if self._missing.get(source, -1) >= 0]
        for source in missing:
            self._followers.setdefault(source, []).append(node)
        self._missing[node] = len(missing)

    def _release(self, node: Node) -> None:
        """Lets a node be taken that follows nothing else, unless it waits for a collective
        in flight."""
        source = _source_of(node) if is_wait(node.target) else None
        if source in self._waits:
            self._waits[source].append(node)
        else:
            heapq.heappush(self._free, self._place[node])

    def _must_arrive(self) -> bool:
        """Whether the next node is a collective, and as many as may be are in flight."""
        full = len(self._in_flight) >= IN_FLIGHT
        return full and is_collective(self._nodes[self._free[0]].target)

    def _take(self, node: Node) -> None:
        self.order.append(node)
        self._missing[node] = -1
        if is_collective(node.target):
            self._in_flight.append(node)
            self._waits[node] = []
        for follower in self._followers.pop(node, ()):
            self._missing[follower] -= 1
            if not self._missing[follower]:
                self._release(follower)

    def _arrive(self) -> None:
        """Ends the wait for the oldest collective."""
        for wait in self._waits.pop(self._in_flight.pop(0)):
            heapq.heappush(self._free, self._place[wait])


def _is_last(node: Node) -> bool:
    """Whether no node that comes before this one may move to after it."""
    return node.op == "output" or node.target is torch.ops.aten.copy_.default


def _has_effect(node: Node) -> bool:
    target = node.target
    if not isinstance(target, OpOverload) or is_wait(target):
        return False
    return (
        not purity.tells_effects(target)
        or target._schema.is_mutable
        or not target._schema.returns
        or torch.Tag.nondeterministic_seeded in target.tags
    )


def _sunk(order: Sequence[Node]) -> list[Node]:
    """Moves a cheap node to after the waits that its readers come after, so that the
    compiler can fuse it with them."""
    place = {node: number for number, node in enumerate(order)}
    waits = list(itertools.accumulate(int(is_wait(node.target)) for node in order))
    at = dict(place)
    for node in reversed(order):
        if not node.users or node.op != "call_function" or _stays(node):
            continue
        reader = min(at[user] for user in node.users)
        if waits[reader] > waits[place[node]]:
            at[node] = reader
    return sorted(order, key=lambda node: (at[node], place[node]))


def _stays(node: Node) -> bool:
    return _has_effect(node) or is_wait(node.target) or _is_heavy(node)


def _worth_beginning(order: Sequence[Node]) -> dict[Node, tuple[Node, bool]]:
    """The collectives that some computation or transfer can overlap with.

    Each comes with its first wait, and with whether it needs a fence. A fence keeps
    the compiler from fusing operators after the begin with operators after the wait.
    """
    found: dict[Node, tuple[Node, bool]] = {}
    # For each collective in flight: whether a heavy operator has come since its begin.
    since: dict[Node, bool] = {}
    sent: list[Node] = []
    for node in order:
        if is_collective(node.target):
            since[node] = False
            sent.append(node)
        elif is_wait(node.target):
            source = _source_of(node)
            if source in since:
                heavy = since.pop(source)
                if (heavy or source is not sent[-1]) and _is_waited_for(source):
                    found[source] = node, heavy
        elif _is_heavy(node):
            since = dict.fromkeys(since, True)
    return found


def _is_waited_for(node: Node) -> bool:
    """Whether every reader of the results is a wait for them."""
    return all(
        is_wait(user.target)
        or (
            user.target is operator.getitem
            and all(is_wait(u.target) for u in user.users)
        )
        for user in node.users
    )


def _is_heavy(node: Node) -> bool:
    target = node.target
    return isinstance(target, OpOverload) and bool(
        _HEAVY.search(target._schema.name.partition("::")[2])
    )
