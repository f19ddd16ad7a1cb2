"""Decoders of many equal layers: kernels are made once, and work grows with the layers."""

from __future__ import annotations

import sys

import pytest
import torch

import anabranch
import torchair
from decoder_layers import Decoder, Sizes, step
from torchair._impl.compile import graph_compiler

DENSE, EXPERTS = {"dtype": torch.float32}, {"dtype": torch.float32, "experts": 4}


def compiled(sizes: Sizes, backend="npugraph_ex", listed: bool = True):
    """Compiles a decoder and holds it against eager PyTorch. Returns its graphs."""
    graphs = []
    own = graph_compiler.edit

    def edit(module, *arguments):
        graphs.append(module)
        return own(module, *arguments)

    model, tokens = Decoder(sizes).eval(), torch.tensor([3, 7])
    with pytest.MonkeyPatch.context() as patch, torch.no_grad():
        patch.setattr(graph_compiler, "edit", edit)
        wanted = model(tokens, step(sizes))
        run = torch.compile(model, backend=backend, dynamic=False, fullgraph=True)
        made = run(tokens, step(sizes, listed=listed))
    torch.testing.assert_close(made, wanted, rtol=1e-4, atol=1e-4)
    return graphs


@pytest.mark.parametrize("kind", [DENSE, EXPERTS])
def test_equal_layers_share_kernels(kind) -> None:
    counts = []
    for layers in (2, 3):
        torch._dynamo.reset()
        anabranch.counters.reset()
        compiled(Sizes(layers, **kind))
        counts.append(anabranch.counters.kernels)
    assert counts[0] == counts[1] > 0


def test_lengths_in_tensors() -> None:
    compiled(Sizes(2, **DENSE), torchair.get_npu_backend(), listed=False)


def test_many_experts_are_no_larger_graph() -> None:
    nodes = []
    for experts in (4, 16):
        torch._dynamo.reset()
        (graph,) = compiled(Sizes(1, dtype=torch.float32, experts=experts))
        nodes.append(len(graph.graph.nodes))
    assert nodes[0] == nodes[1]


def calls_in_passes(layers: int) -> int:
    """Calls of Python while the passes edit a decoder's graph."""
    count, own = 0, graph_compiler.edit

    def counting(frame, event, argument):
        nonlocal count
        count += event in ("call", "c_call")

    def edit(module, *arguments):
        sys.setprofile(counting)
        try:
            return own(module, *arguments)
        finally:
            sys.setprofile(None)

    torch._dynamo.reset()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(graph_compiler, "edit", edit)
        compiled(Sizes(layers, **DENSE))
    return count


def test_passes_are_linear_in_layers() -> None:
    """Twice the layers cost less than 2.4 times the calls: a square would be 4."""
    few, many = (calls_in_passes(layers) for layers in (2, 4))
    assert many < 2.4 * few, (few, many)
