"""Edits the picture after optimisation, as the compiler's passes edit the graph."""

from __future__ import annotations

import dataclasses

import torch

from .picture import Graph, Node

__all__ = ["optimized"]

# Operators that never copy. The strides of their results are strides over their
# argument.
_VIEWS = frozenset(
    f"aten.{name}"
    for name in (
        "_unsafe_view.default",
        "permute.default",
        "t.default",
        "transpose.int",
        "view.default",
    )
)


def optimized(graph: Graph, folds_views: bool = True) -> Graph:
    """The picture without no-ops and without nodes that nobody reads. With
    `folds_views`, a chain of views that transposes a contiguous value is one strided
    view of it."""
    nodes = _without_noops(graph.nodes)
    if folds_views:
        nodes = _with_strided_views(nodes)
    return Graph(graph.name, _without_dead(nodes))


def _with_strided_views(nodes: list[Node]) -> list[Node]:
    by_name = {node.name: node for node in nodes}
    return [_strided(node, by_name) if _is_view(node) else node for node in nodes]


def _is_view(node: Node) -> bool:
    """Whether a node transposes or reshapes one value, and has no stream of its own."""
    operator = str(node.source and node.source.target)
    return operator in _VIEWS and len(node.inputs) == 1 and node.stream is None


def _strided(node: Node, by_name: dict[str, Node]) -> Node:
    """The node as a view of the value after its chain of views. Unchanged if the chain
    transposes nothing, has symbolic sizes, or starts at a value that is not contiguous.
    """
    first, kinds = node, {node.type}
    while _is_view(before := by_name[first.inputs[0].rpartition(":")[0]]):
        first = before
        kinds.add(first.type)
    root = first.source.all_input_nodes[0] if first.source else None
    source = root.meta.get("val") if root else None
    value = node.source.meta.get("val") if node.source else None
    if "Transpose" not in kinds or not (_is_static(source) and _is_static(value)):
        return node
    if not source.is_contiguous():  # type: ignore[union-attr]
        return node
    return dataclasses.replace(
        node,
        type="AsStrided",
        inputs=first.inputs,
        input_descriptors=first.input_descriptors,
        attributes={
            "size": [*value.shape],  # type: ignore[union-attr]
            "stride": [*value.stride()],  # type: ignore[union-attr]
            "storage_offset": 0,
        },
    )


def _is_static(value: object) -> bool:
    return isinstance(value, torch.Tensor) and all(
        isinstance(size, int) for size in (*value.shape, *value.stride())
    )


def _without_noops(nodes: list[Node]) -> list[Node]:
    stands_for: dict[str, str] = {}
    kept = []
    for node in nodes:
        inputs = [stands_for.get(text, text) for text in node.inputs]
        if _is_noop(node):
            stands_for[f"{node.name}:0"] = inputs[0]
            producer = inputs[0].rpartition(":")[0]
            stands_for[f"{node.name}:-1"] = f"{producer}:-1"
            continue
        kept.append(dataclasses.replace(node, inputs=inputs))
    return kept


def _is_noop(node: Node) -> bool:
    """Whether an operator returns its only input, of the same type and shape."""
    if node.type not in ("Identity", "Cast", "Reshape", "Expand"):
        return False
    if len(node.inputs) != 1 or len(node.outputs) != 1:
        return False
    operator = getattr(node.source and node.source.target, "__name__", "")
    if operator.startswith("clone"):
        return False
    before, after = node.input_descriptors[0], node.outputs[0]
    known = -1 not in after.shape
    return known and (before.dtype, before.shape) == (after.dtype, after.shape)


def _without_dead(nodes: list[Node]) -> list[Node]:
    used: set[str] = set()
    kept = []
    for node in reversed(nodes):
        if node.name in used or node.type == "Data" or _has_effect(node):
            used |= {text.rpartition(":")[0] for text in node.inputs}
            kept.append(node)
    return kept[::-1]


def _has_effect(node: Node) -> bool:
    if node.type == "NetOutput" or any(text.endswith(":-1") for text in node.inputs):
        return True
    return node.source is not None and node.source.is_impure()
