"""The picture after optimisation: passes over it that follow the compiler's over the
graph.
"""

from __future__ import annotations

import dataclasses

from .picture import Graph, Node

__all__ = ["optimized"]


def optimized(graph: Graph) -> Graph:
    """The picture without no-ops and without nodes that nobody reads."""
    nodes = _without_noops(graph.nodes)
    return Graph(graph.name, _without_dead(nodes))


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
    """Whether an operator gives back its only input, of the same type and shape."""
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
