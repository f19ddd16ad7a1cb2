"""Describes the inputs of a graph: arguments of a call, and constants."""

from __future__ import annotations

import weakref
from typing import Any

import torch
import torch.fx

from .description import InputSource
from .ranges import small_range
from .symbols import Unsupported, integer, names
from .tensors import describe, foreign_strides


class Inputs:
    """Reads placeholders and constants of one graph, in their order."""

    def __init__(self, region: str = "") -> None:
        """`region` names the region whose inputs these are. A region gets contiguous
        tensors."""
        self.region = region
        self.entries: list[dict[str, Any]] = []
        self.constants: dict[str, torch.Tensor] = {}
        self.owners: dict[str, weakref.ref[torch.Tensor]] = {}
        self.passed: list[int] = []
        self.copied: list[int] = []
        # Dynamo's environment of symbols, if a size is symbolic
        self.shape_env: Any = None

    def __contains__(self, name: str) -> bool:
        return any(entry["name"] == name for entry in self.entries)

    def placeholder(
        self, node: torch.fx.Node, position: int, source: InputSource
    ) -> None:
        """Reads the placeholder at this position of the graph's placeholders."""
        value = node.meta.get("val")
        if source.constant is not None and isinstance(value, torch.Tensor):
            self.constant(node, source.constant, source)
            return
        self.passed.append(position)
        entry: dict[str, Any] = {"name": node.name, "label": source.label}
        if isinstance(value, int | torch.SymInt) and not isinstance(value, bool):
            self._see(value)
            self.entries.append(entry | {"kind": "scalar", "expr": integer(value)})
            return
        if not isinstance(value, torch.Tensor):
            raise Unsupported(f"the input {source.label} is no tensor and no int")
        self._see(*value.shape)
        entry |= {"kind": source.kind} | describe(value)
        strides = None if self.region else foreign_strides(value)
        if strides is not None:
            entry["strides"] = strides
            if any(names(stride) for stride in strides):
                self.copied.append(len(self.passed) - 1)
        if source.watched:
            entry["watched"] = True
        self.entries.append(entry)

    def constant(
        self, node: torch.fx.Node, value: torch.Tensor, source: InputSource
    ) -> None:
        """Reads a node whose value is known when the graph is compiled."""
        described = describe(value)
        name = source.outer_constant or self.region + node.name
        self.constants[name] = value.detach()
        if source.owner is not None:
            self.owners[name] = source.owner
        self.entries.append(
            {"name": node.name, "label": source.label, "kind": "constant"}
            | described
            | {"constant": name}
            | small_range(value)
        )

    def has_strides(self, name: str) -> bool:
        """Whether this is an input that the program gets with strides of its own."""
        return any(
            entry["name"] == name and "strides" in entry and not self._is_copied(place)
            for place, entry in enumerate(self.entries)
        )

    def mutable(self, name: str) -> dict[str, Any]:
        """The entry of an input that the graph writes to. Unsupported: the input is
        passed as a copy, so the caller's tensor would not change."""
        entry = next(item for item in self.entries if item["name"] == name)
        if "constant" in entry or self._is_copied(self.entries.index(entry)):
            raise Unsupported(f"a write to {entry['label']}, which is passed as a copy")
        return entry

    def _is_copied(self, position: int) -> bool:
        before = [item for item in self.entries[:position] if "constant" not in item]
        return len(before) in self.copied

    def _see(self, *sizes: Any) -> None:
        for size in sizes:
            if isinstance(size, torch.SymInt):
                self.shape_env = size.node.shape_env
