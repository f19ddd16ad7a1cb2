"""Chooses the weights that a program watches instead of reading them anew in each call.

A program computes what depends on watched weights alone (packed matrices, folded
normalisations) once, and again when a call passes another version of one of them:
python/bindings/calls/TensorVersions.h. It keeps the results, so it needs about as much
memory as the weights."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import torch
import torch.fx

from .. import memory
from ..describe import auto_functionalized
from ..describe.description import InputSource
from ..describe.regions.calls import OPERATORS
from ..report import say

# Watched weights take at most this part of the available memory, by the option.
PARTS = {True: 1 / 4, "always": 3 / 4}


def choose(
    graph: torch.fx.GraphModule, sources: Sequence[InputSource], watch: bool | str
) -> list[InputSource]:
    """The sources of the graph's placeholders; those that are to be watched are.
    `watch` is the option."""
    placeholders = [node for node in graph.graph.nodes if node.op == "placeholder"]
    chosen = [
        source
        if source.watched and _is_plain(node.meta.get("val"))
        else unwatched(source)
        for node, source in zip(placeholders, sources)
    ]
    may_run_alone = _may_run_alone if watch != "always" else _decides_no_size
    if all(map(may_run_alone, _all_nodes(graph))) and _fits(
        [n.meta["val"] for n, source in zip(placeholders, chosen) if source.watched],
        watch,
    ):
        return chosen
    return [unwatched(source) for source in chosen]


def unwatched(source: InputSource) -> InputSource:
    return source.as_input() if source.watched else source


def _is_plain(value: object) -> bool:
    return isinstance(value, torch.Tensor) and all(
        isinstance(size, int) for size in (*value.shape, *value.stride())
    )


def _all_nodes(graph: torch.fx.GraphModule) -> Iterator[torch.fx.Node]:
    """The nodes of a graph and of its regions. A region gets watched weights as
    arguments, and prepares none."""
    for part in graph.modules():
        if isinstance(part, torch.fx.GraphModule):
            yield from part.graph.nodes


def _may_run_alone(node: torch.fx.Node) -> bool:
    """A call that finds a weight changed runs while no other one does. So no operator
    may wait for another call, as collectives do, or make one, as operators of users
    may."""
    target = node.target
    if isinstance(target, torch._ops.OpOverload):
        return _decides_no_size(node) and target.namespace in ("aten", "prims")
    return _decides_no_size(node) and not auto_functionalized.is_writing(node)


def _decides_no_size(node: torch.fx.Node) -> bool:
    """A program with sizes that the run decides prepares no weights of a call."""
    if node.meta.get("unbacked_bindings"):
        return False
    is_region = isinstance(node.target, torch._ops.HigherOrderOperator)
    return (
        not is_region
        or node.target in OPERATORS
        or auto_functionalized.is_writing(node)
    )


def _fits(tensors: Sequence[torch.Tensor], watch: bool | str) -> bool:
    """Whether there is memory for what is kept of these weights. Says so if there is
    not and the user wants them always watched."""
    total = sum(t.element_size() * math.prod(t.shape) for t in tensors)
    free = memory.available()
    fits = total <= PARTS.get(watch, 0) * free
    if not fits and watch == "always":
        say(
            f"the weights of a graph take {total // memory.MIB} MiB, and"
            f" {free // memory.MIB} MiB are available: each call packs its weights anew."
            " Free memory for a second copy of them"
        )
    return fits
