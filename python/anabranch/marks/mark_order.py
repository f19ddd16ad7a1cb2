"""Checks the waits, events and scopes of one graph against each other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
import torch.fx
from torch._ops import OpOverload

from ..config import Config
from ..errors import CompileError, OptionError
from ..location import user_line
from . import scope
from . import super_kernel as supers

# The alias that `wait` returns has this annotation.
_PASSES = {torch.ops.aten.alias.default}


def is_order(target: OpOverload) -> bool:
    """Whether the operator is there only to order others."""
    return target in scope.ORDER


def is_pass(node: torch.fx.Node) -> bool:
    custom = node.meta.get("custom") or {}
    return node.target in _PASSES and bool(custom.get(scope.PASS))


class Order:
    """The streams and events of the nodes read so far. Raises CompileError, with the
    user's line, where marks contradict each other."""

    def __init__(
        self, marked: bool = True, single: bool = False, supers: bool = True
    ) -> None:
        """Which marks count:

        marked  whether stream scopes count
        single  whether stream scopes are refused
        supers  whether scopes of super kernels count
        """
        self.marked = marked
        self.single = single
        self.supers = supers
        self.priorities: dict[str, tuple[int, torch.fx.Node]] = {}
        self.events: dict[str, torch.fx.Node] = {}

    @classmethod
    def configured(cls, config: Config) -> Order:
        """The order for a graph that is compiled with this configuration."""
        marked = config.streams != "off" and not config.single_stream
        return cls(marked, config.single_stream, config.super_kernels != "off")

    def of_region(self) -> Order:
        """The order for a region of this graph: the same marks count."""
        return Order(self.marked, self.single, self.supers)

    def annotations(self, node: torch.fx.Node) -> dict[str, Any]:
        """The annotations of a node that the description keeps for the compiler."""
        found = dict(node.meta.get("custom") or {})
        if supers.SUPER in found:
            self._read_super(node, found)
        if scope.STREAM not in found:
            return found
        if self.single:
            raise OptionError(
                "single_stream=True and a stream scope contradict each other; take"
                f" one of them away\n  {user_line(node)}"
            )
        self._check_priority(node, found)
        if not self.marked:
            del found[scope.STREAM], found[scope.PRIORITY]
        return found

    def _read_super(self, node: torch.fx.Node, found: dict[str, Any]) -> None:
        try:
            options = supers.parse(found.pop(supers.OPTIONS, ""))
        except ValueError as error:
            raise OptionError(f"{error}\n  {user_line(node)}") from error
        if not self.supers:
            del found[supers.SUPER]
            return
        found[supers.FUSION] = int(options.stream_fusion)
        found[supers.STRICT] = options.strict

    def _check_priority(self, node: torch.fx.Node, found: Mapping[str, Any]) -> None:
        tag, priority = found[scope.STREAM], found[scope.PRIORITY]
        known, first = self.priorities.setdefault(tag, (priority, node))
        if known != priority:
            raise CompileError(
                f"stream {tag!r} has the priority {priority} here and {known} in"
                f" another scope; one stream has one priority"
                f"\n  here:  {user_line(node)}\n  there: {user_line(first)}"
            )

    def check_wait(self, node: torch.fx.Node) -> None:
        """Refuses a dependency that this graph does not compute: its value exists
        already."""
        dependency, strict = node.args[1], (*node.args, True)[2]
        assert isinstance(dependency, torch.fx.Node)
        if strict and dependency.op != "call_function":
            raise CompileError(
                f"wait() for {dependency.name}, which this graph does not compute:"
                " it is an input or was made by another graph, and is there before"
                " this graph starts. Take the wait away, or wait inside the graph"
                f" that computes it\n  {user_line(node)}"
            )

    def event_of(self, node: torch.fx.Node) -> torch.fx.Node | None:
        """The record of this graph that a wait for a tag waits for. None: another graph
        recorded the tag, or the node does not wait for a tag."""
        if node.target is not scope.WAIT_TAG:
            return None
        tag = node.args[0]
        assert isinstance(tag, str)
        if tag in self.events:
            return self.events[tag]
        if tag not in scope.recorded():
            raise CompileError(
                f"event {tag!r} is waited for but never recorded: record({tag!r})"
                " must stand before the wait, in this graph or in one that ran"
                f" earlier\n  {user_line(node)}"
            )
        return None

    def record(self, node: torch.fx.Node) -> None:
        tag = (*node.args, node.kwargs.get("tag"))[0]
        if isinstance(tag, str):
            self.events[tag] = node

    def finish(self) -> None:
        """Allows later graphs to wait for the tags that this graph records."""
        scope.announce(self.events)
