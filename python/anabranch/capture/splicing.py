"""Puts the nodes of a trace in the place of a node."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import GraphModule, Node


def copy_before(
    node: Node,
    module: GraphModule,
    part: GraphModule,
    inputs: Sequence[Node],
    mode: FakeTensorMode,
) -> dict[Node, Node]:
    """Copies the nodes of `part` before a node of `module`. Its placeholders are
    `inputs`, and its constants and subgraphs become attributes of the module. Returns
    each copy."""
    copies = dict(zip(part.graph.find_nodes(op="placeholder"), inputs))
    with module.graph.inserting_before(node):
        for inner in part.graph.nodes:
            if inner.op == "get_attr":
                copies[inner] = _attribute(
                    getattr(part, inner.target), node, module, mode
                )
            elif inner.op not in ("placeholder", "output"):
                copies[inner] = _copy(inner, node, module, copies)
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
