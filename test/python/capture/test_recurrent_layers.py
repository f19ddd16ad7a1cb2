"""Recurrent layers, which Dynamo takes into its graphs if it is told to."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import anabranch


class Recurrent(nn.Module):
    def __init__(self, layer: type[nn.RNNBase]) -> None:
        super().__init__()
        self.layer = layer(24, 24, 2, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x)[0].relu()


@pytest.mark.parametrize(("layer", "by_pytorch"), [(nn.GRU, False), (nn.LSTM, True)])
def test_layers_are_in_the_graph(layer: type[nn.RNNBase], by_pytorch: bool) -> None:
    torch.manual_seed(0)
    model, x = Recurrent(layer).eval(), torch.randn(2, 5, 24)
    torch._dynamo.reset()
    anabranch.counters.reset()
    with torch.no_grad(), torch._dynamo.config.patch(allow_rnn=True):
        result = anabranch.compile(model, freeze=True, fullgraph=True)(x)
        exact = model.double()(x.double())
    torch.testing.assert_close(result.double(), exact, rtol=1e-5, atol=1e-5)
    assert (anabranch.counters.fallback_calls > 0) == by_pytorch
