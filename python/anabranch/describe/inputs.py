"""Describes the inputs of a graph: arguments of a call, and constants.

The compiler sees no values of constants, so the description says what it may rely on.
Tensors of bytes whose integers fit into four bits are packed into half of their bytes.
A list of quotients tells which depths of a weight share a scale, and so does a list of
groups, of depths in another order. The code that packs a weight checks them again. Tensors of integers that are all one number, as zero points
mostly are, count as that number."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from typing import Any

import torch
import torch.fx

from .description import InputSource
from .symbols import Unsupported, names, word
from .tensors import bytes_of, describe, foreign_strides

RANGES = {torch.int8: ((-8, 7), (0, 15)), torch.uint8: ((0, 15),)}
INTEGERS = (torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64)
_SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)
_NUMBERS = (int, *_SYMBOLIC)
KNOWN = ("range", "quotients", "groups")
LEAST_ELEMENTS = 256  # smaller tensors are not worth the check


class Inputs:
    """Reads placeholders and constants of one graph, in their order."""

    def __init__(self, region: str = "", standalone: bool = False) -> None:
        """`region` names the region whose inputs these are. A region gets contiguous
        tensors. A standalone program is called without PyTorch, which writes copies
        back."""
        self.region = region
        self.standalone = standalone
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
        if isinstance(value, _NUMBERS) and not isinstance(value, bool):
            self._see(value)
            self.entries.append(entry | {"kind": "scalar", "expr": word(value)})
            return
        if not isinstance(value, torch.Tensor):
            raise Unsupported(f"the input {source.label} is no tensor and no int")
        self._see(*value.shape)
        entry |= {"kind": source.kind} | describe(bytes_of(node, value))
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
        value = bytes_of(node, value)
        described = describe(value)
        name = source.outer_constant or self.region + node.name
        self.constants[name] = value.detach()
        if source.owner is not None:
            self.owners[name] = source.owner
        self.entries.append(
            {"name": node.name, "label": source.label, "kind": "constant"}
            | described
            | {"constant": name}
            | known_values(value)
        )

    def has_strides(self, name: str) -> bool:
        """Whether this is an input that the program gets with strides of its own."""
        return any(
            entry["name"] == name and "strides" in entry and not self._is_copied(place)
            for place, entry in enumerate(self.entries)
        )

    def mutable(self, name: str) -> dict[str, Any]:
        """The entry of an input that the graph writes to. Unsupported: the input is
        passed as a copy, and nobody copies it back."""
        entry = next(item for item in self.entries if item["name"] == name)
        is_lost = self.standalone and self._is_copied(self.entries.index(entry))
        if "constant" in entry or is_lost:
            raise Unsupported(f"a write to {entry['label']}, which is passed as a copy")
        return entry

    def _is_copied(self, position: int) -> bool:
        before = [item for item in self.entries[:position] if "constant" not in item]
        return len(before) in self.copied

    def _see(self, *sizes: Any) -> None:
        for size in sizes:
            if isinstance(size, _SYMBOLIC):
                self.shape_env = size.node.shape_env


def known_values(value: torch.Tensor) -> dict[str, Any]:
    """What a description says of the elements of a constant, for a layout of few bits.

    {"range": [low, high]} of a matrix whose integers fit into four bits, and of
    integers that are one number; {"quotients": d} of a list whose element i is i // d;
    {"groups": d} of a list that has each of its numbers d times, the last one at most
    so often, in another order; else {}."""
    if (number := _only_number(value)) is not None:
        return {"range": [number, number]}
    if size := _group_size(value):
        in_order = torch.equal(value.long(), torch.arange(value.numel()) // size)
        return {"quotients" if in_order else "groups": size}
    ranges = RANGES.get(value.dtype, ())
    if not ranges or value.dim() < 2 or value.numel() < LEAST_ELEMENTS:
        return {}
    low, high = (int(end) for end in value.detach().aminmax())
    for least, most in ranges:
        if least <= low and high <= most:
            return {"range": [least, most]}
    return {}


def _group_size(value: torch.Tensor) -> int:
    """How often a list has each of its numbers 0, 1, ..., such as the groups of a
    weight's depths; 0 if it has one less often, other than the last, or no other."""
    if value.dim() != 1 or value.dtype not in INTEGERS or value.numel() < 2:
        return 0
    value = value.detach().long()
    if int(value.min()) < 0 or int(value.max()) >= value.numel():
        return 0
    *full, last = value.bincount().tolist()
    size = full[0] if full else 0
    return size if last <= size and all(count == size for count in full) else 0


def _only_number(value: torch.Tensor) -> int | None:
    """The number that each element of a tensor of integers is."""
    if value.dtype not in INTEGERS or not value.numel():
        return None
    first, last = value.detach().flatten()[[0, -1]]
    # Weights are large, and their ends mostly differ.
    return int(first) if first == last and bool((value == first).all()) else None


def with_known_values(
    graph: dict[str, Any], constants: Mapping[str, torch.Tensor]
) -> dict[str, Any]:
    """The description of a graph with what is known of these constants."""
    inputs = []
    for entry in graph["inputs"]:
        kept = {key: value for key, value in entry.items() if key not in KNOWN}
        value = constants.get(entry.get("constant", ""))
        inputs.append(kept | (known_values(value) if value is not None else {}))
    return graph | {"inputs": inputs}
