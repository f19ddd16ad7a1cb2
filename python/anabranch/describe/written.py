"""Handles outputs that are views of inputs which the graph updates.

AOTAutograd recreates such a view after the call. With symbolic sizes it uses
`as_strided` of the input, at the strides and the offset of the graph's result. In the
graph, that result is a view of the input's new value. So the new value must have the
strides and the offset of the input."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import torch
from torch.fx import Node

from .symbols import same


class Written(NamedTuple):
    """An input, and the node that computes its new value."""

    target: Node
    value: Node


class Misplaced(Exception):
    """AOTAutograd would make a view of an input at a wrong place."""


def check_views(nodes: Iterable[Node]) -> None:
    """Raises Misplaced if the layout of a new value differs from that of its input."""
    for written in viewed(nodes):
        if not lie_alike(written.target.meta["val"], written.value.meta["val"]):
            raise Misplaced("it returns a view of an input that it lays out anew")


def viewed(nodes: Iterable[Node]) -> list[Written]:
    """The inputs that a graph with symbolic sizes updates and has views of among its
    outputs."""
    nodes = list(nodes)
    if not any(isinstance(node.meta.get("val"), torch.SymInt) for node in nodes):
        return []
    returned = {
        storage(result.meta["val"])
        for node in nodes
        if node.op == "output"
        for result in node.all_input_nodes
        if result.op != "placeholder" and is_dense(result.meta.get("val"))
    }
    return [
        written
        for written in map(_written, nodes)
        if written and storage(written.value.meta["val"]) in returned
    ]


def _written(node: Node) -> Written | None:
    if node.target is not torch.ops.aten.copy_.default:
        return None
    target, value = node.args[:2]
    if not (isinstance(target, Node) and isinstance(value, Node)):
        return None
    dense = is_dense(target.meta.get("val")) and is_dense(value.meta.get("val"))
    return Written(target, value) if dense and target.op == "placeholder" else None


def is_dense(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.layout is torch.strided


def storage(value: torch.Tensor) -> int:
    return value.untyped_storage()._cdata


def lie_alike(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Whether dtype, sizes and strides are the same. The stride of a dimension of size
    one does not count."""
    sizes = zip(left.shape, right.shape)
    steps = zip(left.shape, left.stride(), right.stride())
    return (
        left.dtype == right.dtype
        and left.dim() == right.dim()
        and all(same(a, b) for a, b in sizes)
        and all(same(size, 1) or same(a, b) for size, a, b in steps)
    )
