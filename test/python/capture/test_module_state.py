"""Graphs whose module has tensors of its own, beside those that are arguments."""

from __future__ import annotations

import random

import pytest
import torch
import torch._inductor.config
from torch import nn

import anabranch


class Affine(nn.Module):
    """Products of several weights and buffers, all of one size, so that each fits in
    the place of any other."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Parameter(torch.randn(8, 8))
        self.second = nn.Parameter(torch.randn(8, 8))
        self.unused = nn.Parameter(torch.randn(8, 8))
        self.register_buffer("third", torch.randn(8, 8))
        self.register_buffer("mean", torch.randn(8, 8))

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return (x @ self.first + y[:8]) @ self.second.t() - (x + self.third) * self.mean


def check(compiled, module: nn.Module, sizes) -> None:
    for rows in sizes:
        x, y = torch.randn(8, 8), torch.randn(rows, 8)
        expected = module(x, y)
        torch.testing.assert_close(compiled(x, y), expected, rtol=1e-4, atol=1e-4)


@pytest.fixture(params=[False, True, "move"])
def freeze(request):
    return request.param


@pytest.mark.parametrize("dynamic", [False, True])
def test_inductors_freezing_leaves_weights_in_the_graph(freeze, dynamic):
    module = Affine().eval()
    with torch._inductor.config.patch(freezing=True), torch.no_grad():
        compiled = torch.compile(
            module, backend="anabranch", options={"freeze": freeze}, dynamic=dynamic
        )
        check(compiled, module, (9, 11) if dynamic else (9,))
        module.second.mul_(-2)
        module.mean.add_(3)
        check(compiled, module, (9,))
        module.first.data = torch.randn(8, 8)
        check(compiled, module, (9,))
        module.third = torch.randn(8, 8)
        check(compiled, module, (9,))


@pytest.mark.parametrize("seed", range(4))
def test_weights_in_the_graph_and_beside_it(freeze, seed):
    """Some of the tensors that the function reads are the graph's, others arguments."""
    rng = random.Random(seed)
    module = Affine().eval()
    passed = rng.sample(["first", "second", "third", "mean"], rng.randint(0, 3))
    graph = torch.fx.symbolic_trace(module)
    graph.graph.output_node().args = (tuple(graph.graph.output_node().args),)
    given: list[torch.Tensor] = []
    for node in list(graph.graph.nodes):
        if node.op == "get_attr" and node.target in passed:
            with graph.graph.inserting_before(next(iter(graph.graph.nodes))):
                argument = graph.graph.placeholder(node.target)
            node.replace_all_uses_with(argument)
            graph.graph.erase_node(node)
            given.insert(0, getattr(module, node.target))
            delattr(graph, str(node.target))
    graph.recompile()
    x, y = torch.randn(8, 8), torch.randn(9, 8)
    with torch.no_grad():
        call = anabranch.anabranch(graph, [*given, x, y], options={"freeze": freeze})
        for _ in range(2):
            (got,) = call(*given, x, y)
            torch.testing.assert_close(got, module(x, y), rtol=1e-4, atol=1e-4)
            module.second.mul_(-2)
            module.third.add_(1)
