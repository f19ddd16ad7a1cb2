"""Edits the inputs of a picture: packs numbers into one input, and names the inputs
that a graph writes to.

    Before: Data arg0_1 (a number); Data arg1_1 (a number); Mul(arg0_1:0, arg1_1:0)
    After:  Data packed_symbols (2,); Unpack(packed_symbols:0); Mul(Unpack:0, Unpack:1)
"""

from __future__ import annotations

import dataclasses
import itertools

import torch
import torch.fx

from ..log import logger
from .picture import Descriptor, Graph, Node

__all__ = ["name_written_inputs", "pack_symbols"]

_PACKED, _PART = "packed_symbols", "Unpack"

# Numbers of the inputs that graphs write to, by the label of the tensor.
_numbers: dict[tuple[str, str], int] = {}
_next = itertools.count()


def pack_symbols(nodes: list[Node]) -> list[Node]:
    """The nodes with all inputs that are numbers packed into one, if there are two or
    more. The node that packs them comes after it, once for all readers."""
    numbers = [node for node in nodes if _is_number(node)]
    if len(numbers) < 2:
        return nodes
    kind = numbers[0].outputs[0].dtype
    data = dataclasses.replace(
        numbers[0],
        name=_PACKED,
        outputs=[Descriptor("y0", kind, [len(numbers)])],
        source=None,
    )
    parts = Node(
        _PART,
        _PART,
        [f"{_PACKED}:0"],
        {},
        [Descriptor("x0", kind, [len(numbers)])],
        [Descriptor(f"y{i}", kind, []) for i in range(len(numbers))],
    )
    edges = {f"{node.name}:0": f"{_PART}:{i}" for i, node in enumerate(numbers)}
    first = nodes.index(numbers[0])
    last = max(i for i, node in enumerate(nodes) if node.type == "Data")
    made: list[Node] = []
    for place, node in enumerate(nodes):
        if place == first:
            made.append(data)
        elif not _is_number(node):
            inputs = [edges.get(text, text) for text in node.inputs]
            made.append(dataclasses.replace(node, inputs=inputs))
        if place == last:
            made.append(parts)
    return made


def _is_number(node: Node) -> bool:
    value = node.source.meta.get("val") if node.source else None
    return node.type == "Data" and isinstance(value, torch.SymInt)


def name_written_inputs(graph: Graph, labels: dict[torch.fx.Node, str]) -> Graph:
    """The graph with the inputs that it writes to as `RefData`. Graphs that share a
    tensor, by `labels`, also share its name."""
    copy = torch.ops.aten.copy_.default
    names: dict[str, str] = {}
    for node in graph.nodes:
        source = node.source
        written = source is not None and any(
            user.target is copy and user.args[0] is source for user in source.users
        )
        if node.type == "Data" and source is not None and written:
            names[node.name] = _reference(source, labels.get(source, node.name))
            logger.debug(
                "Replace %s:RefData with %s:Data in graph %s",
                names[node.name],
                node.name,
                graph.name,
            )
    return Graph(graph.name, [_renamed(node, names) for node in graph.nodes])


def _reference(source: torch.fx.Node, label: str) -> str:
    value = source.meta["val"]
    form = "_".join(
        "_".join(str(size) for size in part)
        for part in (value.shape, value.stride(), (value.storage_offset(),))
    )
    number = _numbers.get((label, form))
    if number is None:
        number = _numbers[label, form] = next(_next)
    return f"RefData_{form}_{number}"


def _renamed(node: Node, names: dict[str, str]) -> Node:
    inputs = []
    for text in node.inputs:
        producer, _, index = text.rpartition(":")
        inputs.append(f"{names.get(producer, producer)}:{index}")
    if node.name not in names:
        return dataclasses.replace(node, inputs=inputs)
    return dataclasses.replace(node, name=names[node.name], type="RefData")
