"""Handles outputs that are views of inputs which the graph updates.

AOTAutograd recreates such a view after the call. With symbolic sizes it uses
`as_strided` of the input, at the strides and the offset of the graph's result. In the
graph, that result is a view of the input's new value. So the new value must have the
strides and the offset of the input. torch 2.14 adds the offset of the input once more if
the result has memory of its own, so the input must begin where its memory does.

An inference graph writes new values by `copy_`. A training graph may return them, and
AOTAutograd's wrapper writes them.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import torch
from torch._functorch._aot_autograd.descriptors import (
    InputMutationAOTOutput,
    PlainAOTOutput,
)
from torch._functorch._aot_autograd.functional_utils import gen_alias_from_base
from torch.fx import Node

from .symbols import same


class Written(NamedTuple):
    """An input, and the node that computes its new value."""

    target: Node
    value: Node


class Misplaced(Exception):
    """A view would begin at another place in memory than in eager PyTorch."""


def check_views(nodes: Iterable[Node]) -> None:
    """Raises Misplaced if the layout of a new value differs from that of its input, or if
    this PyTorch would count the offset of the input twice."""
    for written in viewed(nodes):
        target = written.target.meta["val"]
        if not have_same_layout(target, written.value.meta["val"]):
            raise Misplaced("it returns a view of an input that it lays out anew")
        if not same(target.storage_offset(), 0) and adds_offset():
            raise Misplaced(
                "it returns a view of an input with an offset in its memory"
            )


@functools.cache
def adds_offset() -> bool:
    """Whether AOTAutograd adds the offset of an input to that of a result which has
    memory of its own."""
    source, result = torch.zeros(3)[1:], torch.zeros(2)[1:]
    again = gen_alias_from_base(source, result, False, None, replay_views=False)
    return again.storage_offset() == 2


def viewed(nodes: Iterable[Node]) -> list[Written]:
    """The inputs that a graph with symbolic sizes updates and has views of among its
    outputs."""
    nodes = list(nodes)
    if not any(isinstance(node.meta.get("val"), torch.SymInt) for node in nodes):
        return []
    results = [pair for node in nodes if node.op == "output" for pair in _results(node)]
    returned = {
        storage(result.meta["val"])
        for result, kind in results
        if result.op != "placeholder" and is_dense(result.meta.get("val"))
        if kind is None or isinstance(kind, PlainAOTOutput)
    }
    return [
        written
        for written in updates(nodes)
        if storage(written.value.meta["val"]) in returned
    ]


def updates(nodes: list[Node]) -> list[Written]:
    """The inputs that a graph updates."""
    results = [pair for node in nodes if node.op == "output" for pair in _results(node)]
    return [
        Written(target, value)
        for target, value in (*_copies(nodes), *_returned_updates(nodes, results))
        if is_dense(target.meta.get("val")) and is_dense(value.meta.get("val"))
    ]


def _results(output: Node) -> list[tuple[Node, Any]]:
    """The nodes that a graph returns, each with AOTAutograd's descriptor of it, if it
    has one."""
    values = output.args[0]
    assert isinstance(values, (tuple, list))
    kinds = output.meta.get("desc") or [None] * len(values)
    return [
        (value, kind) for value, kind in zip(values, kinds) if isinstance(value, Node)
    ]


def _copies(nodes: Iterable[Node]) -> Iterator[tuple[Node, Node]]:
    """Inputs that the graph writes, and their new values."""
    for node in nodes:
        if node.target is not torch.ops.aten.copy_.default:
            continue
        target, value = node.args[:2]
        if not (isinstance(target, Node) and isinstance(value, Node)):
            continue
        if target.op == "placeholder":
            yield target, value


def _returned_updates(
    nodes: Iterable[Node], results: Iterable[tuple[Node, Any]]
) -> Iterator[tuple[Node, Node]]:
    """Inputs whose new values the graph returns, and these values."""
    inputs = {
        node.meta["desc"]: node
        for node in nodes
        if node.op == "placeholder" and "desc" in node.meta
    }
    for value, kind in results:
        if isinstance(kind, InputMutationAOTOutput) and kind.mutated_input in inputs:
            yield inputs[kind.mutated_input], value


def is_dense(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.layout is torch.strided


def storage(value: torch.Tensor) -> int:
    return value.untyped_storage()._cdata


def have_same_layout(left: torch.Tensor, right: torch.Tensor) -> bool:
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
