"""Operators that are taken apart by one trace for arguments of equal forms: wherever the
arguments come from, each copy of the trace has operands and memory of its own."""

from __future__ import annotations

import functools
import itertools
import operator
import random

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from anabranch import extension

aten = torch.ops.aten


def minus(x, y):
    return x - 2 * y


def sum_and_view(x, y):
    return x + 3 * y, x.view(9).view(3, 3)


# What two operators of PyTorch are made of here.
PARTS = {
    aten.fmod.Tensor: minus,
    aten._weight_norm_interface.default: sum_and_view,
}


class Row:
    """A graph of two matrices and layers of operators, of which each reads two values."""

    def __init__(self) -> None:
        self.mode = FakeTensorMode()
        self.graph = torch.fx.Graph()
        self.nodes = [self._input(name) for name in "ab"]

    def _input(self, name: str) -> torch.fx.Node:
        node = self.graph.placeholder(name)
        with self.mode:
            node.meta["val"] = torch.empty(3, 3)
        return node

    def add(self, target, left: int, right: int) -> None:
        operands = (self.nodes[left], self.nodes[right])
        node = self.graph.call_function(target, operands)
        with self.mode:
            node.meta["val"] = PARTS[target](*(n.meta["val"] for n in operands))
        if not isinstance(node.meta["val"], tuple):
            self.nodes.append(node)
            return
        for place, value in enumerate(node.meta["val"]):
            item = self.graph.call_function(operator.getitem, (node, place))
            item.meta["val"] = value
            self.nodes.append(item)

    def completed(self) -> torch.fx.GraphModule:
        self.graph.output(tuple(self.nodes))
        module = torch.fx.GraphModule(torch.nn.Module(), self.graph)
        extension.complete_nodes(module, PARTS)
        return module


def run(layers, values):
    """The values of a row, computed one by one."""
    values = list(values)
    for target, left, right in layers:
        made = PARTS[target](values[left], values[right])
        values += made if isinstance(made, tuple) else [made]
    return values


class Memory(torch.fx.Interpreter):
    """Runs a graph, and keeps the results of its nodes."""

    def __init__(self, module) -> None:
        super().__init__(module)
        self.results = {}

    def run_node(self, node):
        self.results[node] = super().run_node(node)
        return self.results[node]


def owners(tensors) -> list[int]:
    """For each tensor, the first that has the same memory."""
    memory = [tensor.untyped_storage()._cdata for tensor in tensors]
    return list(map(memory.index, memory))


def check(layers) -> None:
    row = Row()
    for layer in layers:
        row.add(*layer)
    module = row.completed()
    given = torch.randn(3, 3), torch.randn(3, 3)
    interpreter = Memory(module)
    found = interpreter.run(*given)
    torch.testing.assert_close(list(found), run(layers, given))
    nodes = [node for node in module.graph.nodes if node.op != "output"]
    assert owners(n.meta["val"] for n in nodes) == owners(
        [interpreter.results[n] for n in nodes]
    )


@pytest.mark.parametrize("targets", list(itertools.product(PARTS, repeat=2)))
def test_two_layers_in_every_order(targets) -> None:
    """The second layers read every pair of values, equal ones among them."""
    first, second = targets
    for left, right in itertools.product(range(2), repeat=2):
        before = [(first, left, right)]
        count = len(run(before, torch.zeros(2, 3, 3)))
        pairs = itertools.product(range(count), repeat=2)
        check(before + [(second, *pair) for pair in pairs])


@pytest.mark.parametrize("seed", range(20))
def test_long_rows(seed) -> None:
    choose = random.Random(seed)
    layers, count = [], 2
    for _ in range(12):
        target = choose.choice(list(PARTS))
        layers.append((target, choose.randrange(count), choose.randrange(count)))
        count = len(run(layers, torch.zeros(2, 3, 3)))
    check(layers)


@pytest.mark.parametrize("dynamic", [False, True])
def test_compiled_rows(dynamic) -> None:
    """Sums come from one another; the first layer's operands are one value."""

    def compile_one(module, example_inputs, sources, *, config):
        extension.complete_nodes(module, {aten.fmod.Tensor: minus})
        return extension.compile_graph(module, example_inputs, sources, config=config)

    def backend(module, example_inputs):
        compile_graph = functools.partial(compile_one, config=extension.configure({}))
        return extension.trace(module, example_inputs, compile_graph)

    def function(join, x, y):
        total = x
        for _ in range(3):
            made = join(total, x)
            total = join(x + made, join(y, made))
        return total, join(total, total)

    x, y = torch.randn(4, 3), torch.randn(4, 3)
    compiled = torch.compile(
        functools.partial(function, torch.fmod), backend=backend, dynamic=dynamic
    )
    torch.testing.assert_close(compiled(x, y), function(minus, x, y))


def test_one_value_of_two_nodes() -> None:
    """A pass gave its node the value object of another."""
    row = Row()
    row.nodes[1].meta["val"] = row.nodes[0].meta["val"]
    row.add(aten.fmod.Tensor, 0, 1)
    given = torch.randn(3, 3), torch.randn(3, 3)
    torch.testing.assert_close(row.completed()(*given)[2], minus(*given))


def test_weights_of_few_bits() -> None:
    """The first layer's offset is its scale; the second has two tables."""

    def function(integers, scale, offset):
        first = extension.dequantized(integers, scale, scale, 2, torch.float32)
        second = extension.dequantized(integers, scale, offset, 2, torch.float32)
        return first, second

    integers = torch.randint(0, 4, (3, 4), dtype=torch.int8)
    given = integers, torch.rand(3, 2), torch.rand(3, 2)
    compiled = torch.compile(function, backend="anabranch")
    torch.testing.assert_close(compiled(*given), function(*given))
