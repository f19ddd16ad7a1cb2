"""Makes arguments of the tensors of a list that Dynamo passes whole.

Compiled autograd traces a backward pass as a function of one list: the tensors that the
forward pass saved, and the parameters. Calls empty the list, so that a tensor is freed
as soon as nothing else needs it."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.fx
from torch.fx import Node

# Compiles a graph: (module, example inputs).
Compiler = Callable[[torch.fx.GraphModule, Sequence[Any]], Callable[..., Any]]


def are_among(example_inputs: Sequence[Any]) -> bool:
    return any(isinstance(value, (list, tuple)) for value in example_inputs)


def compile_flat(
    module: torch.fx.GraphModule, example_inputs: Sequence[Any], compiler: Compiler
) -> Callable[..., Any]:
    """The function of the arguments that Dynamo passes, whose graph `compiler` compiles
    with an argument for each item of a list."""
    flat: list[Any] = []
    for value in example_inputs:
        flat += value if isinstance(value, (list, tuple)) else [value]
    graph = _flattened(module.graph, example_inputs)
    compiled = compiler(torch.fx.GraphModule(module, graph), flat)
    inputs = module.graph.find_nodes(op="placeholder")
    emptied = [bool(node.meta.get("steal_arg")) for node in inputs]

    def call(*arguments: Any) -> Any:
        values: list[Any] = []
        for argument, is_emptied in zip(arguments, emptied):
            values += argument if isinstance(argument, (list, tuple)) else [argument]
            if is_emptied:
                argument.clear()
        return compiled(*values)

    return call


def _flattened(graph: torch.fx.Graph, example_inputs: Sequence[Any]) -> torch.fx.Graph:
    """A copy of the graph, with a placeholder for each item of a list."""
    copied = torch.fx.Graph()
    examples = iter(example_inputs)
    values: dict[Node, Any] = {}
    for node in graph.nodes:
        if node.op == "placeholder":
            example = next(examples)
            if isinstance(example, (list, tuple)):
                values[node] = [_item(copied, node, i) for i in range(len(example))]
                continue
        if _is_item(node) and isinstance(values[node.args[0]], list):
            values[node] = values[node.args[0]][node.args[1]]
            values[node].meta |= node.meta
            continue
        values[node] = copied.node_copy(node, values.__getitem__)
    return copied


def _item(graph: torch.fx.Graph, node: Node, index: int) -> Node:
    return graph.placeholder(f"{node.name}_{index}")


def _is_item(node: Node) -> bool:
    return node.target is operator.getitem and isinstance(node.args[1], int)
