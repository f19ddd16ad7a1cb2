"""torch.npu.make_graphed_callables: training and inference through captured graphs equal
eager code, bit for bit."""

from __future__ import annotations

import json

import pytest
import torch

import torch_npu

make_graphed_callables = torch_npu.npu.make_graphed_callables


def parts():
    torch.manual_seed(1)
    norm = torch.nn.LayerNorm(16)
    return (
        torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), norm),
        torch.nn.Linear(16, 4),
        torch.nn.Sequential(torch.nn.Linear(16, 4), torch.nn.Tanh()),
    )


def train(first, second, third):
    """Losses, and a result in evaluation mode; a value chooses the second layer."""
    modules = (first, second, third)
    weights = [w for module in modules for w in module.parameters()]
    optimizer = torch.optim.SGD(weights, lr=0.1)
    torch.manual_seed(5)
    losses, choices = [], set()
    for _ in range(8):
        data, target = torch.randn(6, 8), torch.randn(6, 4)
        optimizer.zero_grad(set_to_none=True)
        hidden = first(data)
        choices.add(bool(hidden[0, 0] > 0))
        y = second(hidden) if hidden[0, 0] > 0 else third(hidden)
        loss = torch.nn.functional.mse_loss(y, target)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert choices == {True, False}
    for module in modules:
        module.eval()
    return losses, third(first(torch.ones(2, 8)))


def test_training() -> None:
    first, second, third = parts()
    hidden = [torch.randn(6, 16, requires_grad=True) for _ in range(2)]
    assert make_graphed_callables(first, (torch.randn(6, 8),)) is first
    second, third = make_graphed_callables((second, third), tuple((h,) for h in hidden))
    losses, result = train(first, second, third)
    wanted, expected = train(*parts())
    assert losses == wanted
    assert torch.equal(result, expected)


def function(x, pair):
    left, right = pair
    return {"product": (x @ left).relu(), "place": (right * 2).argmax()}


def test_functions_of_nested_arguments() -> None:
    def arguments(grad):
        x = torch.randn(3, 3, requires_grad=grad)
        return x, (torch.randn(3, 3), torch.randn(4))

    graphed = make_graphed_callables(function, arguments(True))
    for _ in range(3):
        x, pair = arguments(True)
        twin = x.detach().clone().requires_grad_()
        found, wanted = graphed(x, pair), function(twin, pair)
        for name in wanted:
            assert torch.equal(found[name], wanted[name])
        found["product"].square().sum().backward()
        wanted["product"].square().sum().backward()
        assert torch.equal(x.grad, twin.grad)
    with torch.no_grad():
        graphed = make_graphed_callables(function, arguments(False))
        given = arguments(False)
        assert torch.equal(graphed(*given)["product"], function(*given)["product"])


def test_wrong_uses() -> None:
    x = torch.randn(3, 3)
    graphed = make_graphed_callables(torch.relu, (x,))
    with pytest.raises(RuntimeError, match=r"argument 0 as \(2, 3\) torch.float32"):
        graphed(torch.randn(2, 3))
    with pytest.raises(RuntimeError, match="got 2 tensors, and was captured with 1"):
        graphed(x, x)
    with pytest.raises(TypeError, match="must be tensors, got int at place 0"):
        make_graphed_callables(torch.relu, (3,))
    with pytest.raises(RuntimeError, match="must have 2 tuples"):
        make_graphed_callables((torch.relu, torch.exp), ((x,),))
    hooked = torch.nn.ReLU()
    hooked.register_forward_hook(lambda *_: None)
    with pytest.raises(RuntimeError, match="must not have hooks"):
        make_graphed_callables(hooked, (x,))
    buffered = torch.nn.ReLU()
    buffered.register_buffer("b", torch.ones(1, requires_grad=True))
    with pytest.raises(RuntimeError, match="must not require gradients"):
        make_graphed_callables(buffered, (x,))
    with (
        torch.autocast("npu", cache_enabled=True),
        pytest.raises(RuntimeError, match="autocast's cache"),
    ):
        make_graphed_callables(torch.relu, (x,))


def test_a_dump_of_a_capture(tmp_path) -> None:
    captured = torch.npu.NPUGraph()
    x = torch.ones(2, 3)
    captured.enable_debug_mode()
    captured.debug_dump(str(tmp_path / "none.json"))
    assert not list(tmp_path.iterdir())
    with torch.no_grad(), torch.npu.graph(captured):
        x.mul(2.0).exp()
    captured.debug_dump(str(tmp_path / "graph.json"))
    events = json.loads((tmp_path / "graph.json").read_text())["traceEvents"]
    names = [event["name"] for event in events]
    assert names == ["aten.mul.Tensor", "aten.exp.default"]
    assert events[0]["args"]["Operands"] == {"0": "float32[2, 3]", "1": "2.0"}
    aligned = tmp_path / "graph.aligned.json"
    assert aligned.read_text() == (tmp_path / "graph.json").read_text()
