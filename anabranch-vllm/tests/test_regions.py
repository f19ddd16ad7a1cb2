"""Equal layers are traced once, and give what eager gives. Needs no vLLM."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import anabranch
from anabranch_vllm import backend, regions


class Block(nn.Module):
    """A layer."""

    def __init__(self, scale: float = 1.0, inner: int = 0) -> None:
        super().__init__()
        self.linear = nn.Linear(16, 16)
        self.scale = scale
        self.inner = nn.ModuleList(nn.Tanh() for _ in range(inner))

    def forward(self, x, residual):
        x = torch.tanh(x if residual is None else x + residual)
        for activation in self.inner:
            x = activation(x)
        return torch.relu(self.linear(x)) * self.scale, x


class Other(Block):
    """A layer of another class."""


class Model(nn.Module):
    def __init__(self, *layers: nn.Module) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def forward(self, x):
        residual = None
        for layer in self.layers:
            x, residual = layer(x, residual)
        return x + residual


def served(model: Model, xs: list[torch.Tensor]) -> tuple[list[torch.Tensor], int]:
    """What a compiled model gives, and how many bodies its Dynamo graph has. Its guards
    are dropped, as vLLM does."""
    bodies = 0

    def look(module, inputs):
        nonlocal bodies
        bodies = sum(
            isinstance(part, torch.fx.GraphModule) for part in module.modules()
        )
        return backend.compile_graph(module, inputs)

    torch._dynamo.mark_dynamic(xs[0], 0)
    function = torch.compile(
        model,
        backend=look,
        fullgraph=True,
        dynamic=False,
        options={"guard_filter_fn": torch.compiler.skip_all_guards_unsafe},
    )
    with torch.no_grad():
        return [function(x) for x in xs], bodies


@pytest.fixture
def mark():
    marked: list[type[nn.Module]] = []

    def mark(model: Model) -> Model:
        marked.extend(regions.mark(model))
        return model.eval()

    yield mark
    regions.unmark(marked)


@pytest.mark.parametrize(
    ("scales", "bodies"),
    # The first layer gets no residual. The others differ as their scales do.
    [
        ([1.0] * 5, 2),
        ([1.0, 2.0, 3.0, 2.0, 3.0], 3),
        ([float(i) for i in range(12)], 12),
    ],
)
def test_layers_with_weights_of_their_own(mark, scales, bodies) -> None:
    model = mark(Model(*map(Block, scales)))
    xs = [torch.randn(n, 16) for n in (7, 1, 4)]
    found, parts = served(model, xs)
    assert parts == 1 + bodies
    assert anabranch.counters.graphs == 1
    assert anabranch.counters.fallback_calls == 0
    with torch.no_grad():
        torch.testing.assert_close(found, [model(x) for x in xs])


def test_single_layers_are_no_regions(mark) -> None:
    before = Block.forward
    mark(Model(Block(), Other()))
    assert Block.forward is before


def test_a_region_has_no_regions_inside(mark) -> None:
    tanh = nn.Tanh.forward
    mark(Model(Block(inner=2), Block(inner=2)))
    assert nn.Tanh.forward is tanh
    assert hasattr(Block.forward, "__marked_compile_region_fn__")


def test_layers_are_as_before_after_the_trace() -> None:
    before, model = Block.forward, Model(Block(), Block())
    marked = regions.mark(model)
    assert regions.mark(model) == []
    regions.unmark(marked)
    assert Block.forward is before
    assert not marked
