"""Compiles a function, and returns the graph that dumps and logs show."""

from __future__ import annotations

import logging

import torch

import torchair
from torchair._impl.dump import graph_dump
from torchair._impl.dump.picture import Graph, Node


def pictures(monkeypatch) -> list[Graph]:
    """Each compilation appends its pictures before and after optimisation."""
    torchair.logger.setLevel(logging.DEBUG)
    found: list[Graph] = []

    def keep(function):
        def call(*arguments) -> Graph:
            found.append(function(*arguments))
            return found[-1]

        return call

    for name in ("convert", "optimized"):
        monkeypatch.setattr(graph_dump, name, keep(getattr(graph_dump, name)))
    return found


def only(graph: Graph, kind: str) -> Node:
    (node,) = all_of(graph, kind)
    return node


def all_of(graph: Graph, kind: str) -> list[Node]:
    return [node for node in graph.nodes if node.type == kind]


def orders(node: Node) -> list[str]:
    """The nodes that this node only waits for."""
    return [text.removesuffix(":-1") for text in node.inputs if text.endswith(":-1")]


def compiled(function, config=None, **settings):
    backend = torchair.get_npu_backend(compiler_config=config)
    settings = {"fullgraph": True, "dynamic": False} | settings
    return torch.compile(function, backend=backend, **settings)
