"""Chooses the weights that a program watches instead of reading them anew in each call.

A program computes what depends on watched weights alone (packed matrices, folded
normalisations) once, and again when a call passes another version of one of them:
python/bindings/calls/TensorVersions.h. It keeps the results, so it needs about as much
memory as the weights."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
import torch.fx

from .. import memory
from ..describe.description import InputSource

# Watched weights take at most this part of the available memory.
PART = 1 / 4


def choose(
    graph: torch.fx.GraphModule, sources: Sequence[InputSource]
) -> list[InputSource]:
    """The sources of the graph's placeholders; those that are to be watched are."""
    placeholders = [node for node in graph.graph.nodes if node.op == "placeholder"]
    chosen = [
        source
        if source.watched and _is_plain(node.meta.get("val"))
        else unwatched(source)
        for node, source in zip(placeholders, sources)
    ]
    if not all(map(_may_run_alone, graph.graph.nodes)) or not _fits(
        [n.meta["val"] for n, source in zip(placeholders, chosen) if source.watched]
    ):
        return [unwatched(source) for source in chosen]
    return chosen


def unwatched(source: InputSource) -> InputSource:
    return source.as_input() if source.watched else source


def _is_plain(value: object) -> bool:
    return isinstance(value, torch.Tensor) and all(
        isinstance(size, int) for size in (*value.shape, *value.stride())
    )


def _may_run_alone(node: torch.fx.Node) -> bool:
    """A call that finds a weight changed runs while no other one does. So no operator
    may wait for another call, as collectives do, or make one, as operators of users
    may. Nor may a program with regions prepare weights of a call."""
    if node.meta.get("unbacked_bindings"):
        return False
    if node.op != "call_function" or not isinstance(node.target, torch._ops.OpOverload):
        return not isinstance(node.target, torch._ops.HigherOrderOperator)
    return node.target.namespace in ("aten", "prims")


def _fits(tensors: Sequence[torch.Tensor]) -> bool:
    total = sum(t.element_size() * math.prod(t.shape) for t in tensors)
    return total <= PART * memory.available()
