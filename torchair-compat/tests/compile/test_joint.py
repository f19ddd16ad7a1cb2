"""Joint graphs: forward and backward in one graph."""

from __future__ import annotations

import pytest
import torch

import anabranch
from pictures import compiled


def model():
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1)
    )


def gradients(net, run, x, factor):
    net.zero_grad()
    x.grad = None
    outputs = run(x)
    (outputs[0] * factor).backward()
    return [outputs[0], outputs[1], x.grad, *(p.grad for p in net.parameters())]


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("mode", ["max-autotune", "npugraph_ex"])
def test_one_graph_trains(config, mode, dynamic) -> None:
    config.mode = mode
    config.experimental_config.aot_config_enable_joint_graph = True
    net = model()

    def function(x):
        y = net(x)
        return (y * y).mean(), y

    run = compiled(function, config, dynamic=dynamic)
    for rows in (3, 3, 5):
        x = torch.randn(rows, 4, requires_grad=True)
        wanted = [t.clone() for t in gradients(net, function, x, 3.0)]
        found = gradients(net, run, x, 3.0)
        for one, other in zip(found, wanted):
            torch.testing.assert_close(one, other)
        assert not found[1].requires_grad
    assert anabranch.counters.graphs >= 1


def test_inference_is_as_ever(config) -> None:
    config.experimental_config.aot_config_enable_joint_graph = True
    net, x = model(), torch.randn(3, 4)
    with torch.no_grad():
        torch.testing.assert_close(compiled(net, config)(x), net(x))


@pytest.mark.parametrize("place, text", [(1, "must be one number"), (5, "2 outputs")])
def test_what_is_no_loss(config, place, text) -> None:
    config.experimental_config.aot_config_enable_joint_graph = True
    config.experimental_config.aot_config_output_loss_index = place
    x = torch.randn(3, 4, requires_grad=True)
    run = compiled(lambda x: ((x * x).sum(), x * 2), config)
    with pytest.raises(Exception, match=text):
        run(x)
