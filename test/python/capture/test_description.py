"""Descriptions that run node by node, without the compiler, give eager's results."""

import pytest
import torch
from checking import check
from interpret import Interpreter
from torch import nn

from anabranch import backend
from anabranch.describe import graph
from anabranch.describe.views import restore


@pytest.fixture(autouse=True)
def interpreted(monkeypatch):
    def interpret(module, inputs, sources, **_settings):
        description = graph.GraphReader(module, "test", sources).read()

        def call(arguments):
            with torch.no_grad():
                return Interpreter(description).run(arguments)

        return restore(call, description.aliases)

    monkeypatch.setattr(backend, "compile_graph", interpret)


@pytest.mark.parametrize("dynamic", [False, True])
def test_strides_of_results(dynamic):
    def function(x):
        y = x.sum(0)
        return y.expand(3, -1), (x * 2).permute(1, 0), x + 1, y.expand(2, 3, -1) * 2

    for x in (torch.randn(4, 6), torch.randn(6, 4).t(), torch.randn(4, 1).expand(4, 5)):
        check(function, x, dynamic=dynamic)


def test_state():
    class Counter(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("seen", torch.zeros(4))

        def forward(self, x):
            self.seen[1:] += x
            return self.seen * 2, torch.tensor([1.0, 2.0])

    for freeze in (False, True):
        check(Counter(), torch.randn(3), calls=3, options={"freeze": freeze})


def test_a_small_transformer():
    layer = nn.TransformerDecoderLayer(16, 2, 32, batch_first=True).eval()
    check(layer, torch.randn(2, 5, 16), torch.randn(2, 7, 16), dynamic=True)


def test_training():
    model = nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.Linear(16, 2))

    def gradient(x):
        model.zero_grad()
        model(x).square().sum().backward()
        return model[0].weight.grad

    x = torch.randn(8, 6)
    expected = gradient(x).clone()
    run = torch.compile(model, backend=backend.anabranch)
    model.zero_grad()
    run(x).square().sum().backward()
    torch.testing.assert_close(model[0].weight.grad, expected)
