"""Finds the streams of a graph whose scopes are still marks."""

from __future__ import annotations

import torch
import torch.fx

from ..marks.attributes import STREAM

__all__ = ["streams"]

air = torch.ops.air


def streams(graph: torch.fx.Graph) -> list[tuple[torch.fx.Node, str | None]]:
    """The stream of each node, from the scopes that are open at the node."""
    found: list[tuple[torch.fx.Node, str | None]] = []
    scopes: list[str | None] = [None]
    for node in graph.nodes:
        if node.target is air.scope_enter.default:
            keys, values = node.args[:2]
            assert isinstance(keys, list | tuple)
            assert isinstance(values, list | tuple)
            pairs = dict(zip(map(str, keys), map(str, values)))
            scopes.append(pairs.get(STREAM, scopes[-1]))
        elif node.target is air.scope_exit.default and len(scopes) > 1:
            scopes.pop()
        else:
            found.append((node, scopes[-1]))
    return found
