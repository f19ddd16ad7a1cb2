"""Puts the nodes of a trace in the place of a node."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx import GraphModule, Node

from ..describe.written import is_dense, storage


def copy_before(
    node: Node,
    module: GraphModule,
    part: GraphModule,
    inputs: Sequence[Node],
    mode: FakeTensorMode,
) -> dict[Node, Node]:
    """Copies the nodes of `part` before a node of `module`. Its placeholders are
    `inputs`, and its constants and subgraphs become attributes of the module. A copy's
    value has memory of its own, or that of an input. Returns each copy."""
    copies = dict(zip(part.graph.find_nodes(op="placeholder"), inputs))
    memory = Memory()
    for given, node_of_input in copies.items():
        memory.put(given.meta.get("val"), node_of_input.meta.get("val"))
    with module.graph.inserting_before(node):
        for inner in part.graph.nodes:
            if inner.op == "get_attr":
                copies[inner] = _attribute(
                    getattr(part, inner.target), node, module, mode
                )
            elif inner.op not in ("placeholder", "output"):
                copies[inner] = _copy(inner, node, module, copies)
                if "val" in inner.meta:
                    copies[inner].meta["val"] = memory.moved(inner.meta["val"])
    return copies


def _copy(
    inner: Node, node: Node, module: GraphModule, copies: dict[Node, Node]
) -> Node:
    """Copies a node of the trace, which gets the user's line and the annotations of the
    node that it stands for."""
    made = module.graph.node_copy(inner, copies.__getitem__)
    _annotate(made, node)
    return made


def _annotate(made: Node, node: Node) -> None:
    for note in ("stack_trace", "custom"):
        made.meta.pop(note, None)
        if note in node.meta:
            made.meta[note] = node.meta[note]


def _attribute(
    value: Any, node: Node, module: GraphModule, mode: FakeTensorMode
) -> Node:
    """Makes a tensor or a subgraph that the trace found an attribute of the graph."""
    number = 0
    while hasattr(module, f"_spliced_{number}"):
        number += 1
    name = f"_spliced_{number}"
    if isinstance(value, GraphModule):
        module.add_submodule(name, _subgraph(value, node))
        return module.graph.get_attr(name)
    module.register_buffer(name, value, persistent=False)
    made = module.graph.get_attr(name)
    made.meta["val"] = mode.from_tensor(value, static_shapes=True)
    return made


def _subgraph(part: GraphModule, node: Node) -> GraphModule:
    """Copies a subgraph of the trace, of which other nodes may have copies."""
    copied = copy.deepcopy(part)
    for inner in copied.graph.nodes:
        _annotate(inner, node)
    return copied


class Memory:
    """Moves tensors of a trace to other memory: copies of a node's operators compute
    values of their own."""

    def __init__(self) -> None:
        self.places: dict[int, torch.UntypedStorage] = {}
        self.moves: dict[int, Any] = {}

    def put(self, old: Any, new: Any) -> None:
        """Says which memory tensors get that share memory with `old`."""
        if is_dense(old) and is_dense(new):
            self.places[storage(old)] = new.untyped_storage()

    def moved(self, value: Any) -> Any:
        if isinstance(value, tuple | list):
            return type(value)(map(self.moved, value))
        if not (isinstance(value, FakeTensor) and is_dense(value)):
            return value
        if id(value) not in self.moves:
            self.moves[id(value)] = self._move(value)
        return self.moves[id(value)]

    def _move(self, value: FakeTensor) -> FakeTensor:
        mode = value.fake_mode
        meta = torch.empty(0, dtype=value.dtype, device="meta")
        place = self.places.get(storage(value))
        if place is None:
            bytes = value.untyped_storage().nbytes()
            fresh = torch.empty(bytes, dtype=torch.uint8, device="meta")
            place = self.places[storage(value)] = fresh.untyped_storage()
        meta.set_(place, value.storage_offset(), value.shape, value.stride())
        return FakeTensor(mode, meta, value.device)
