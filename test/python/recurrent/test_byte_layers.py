"""Layers that torch.ao's quantize_dynamic made: weights of bytes, in one program."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.ao.nn.quantized.dynamic as made
from checking import assert_one_program, compiled, meaningful_strides
from torch import Tensor, nn
from torch.ao.quantization import (
    default_dynamic_qconfig,
    float16_dynamic_qconfig,
    per_channel_dynamic_qconfig,
    quantize_dynamic,
)
from torch.nn.utils.rnn import pack_padded_sequence
from torch.utils._pytree import tree_leaves, tree_map

import anabranch
from anabranch.errors import CompileError

KINDS = (nn.Linear, nn.LSTM, nn.GRU)


@pytest.fixture(autouse=True)
def no_gradients():
    with torch.no_grad():
        yield


def quantised(model: nn.Module, config: Any = default_dynamic_qconfig) -> nn.Module:
    return quantize_dynamic(model.eval(), {kind: config for kind in KINDS})


def assert_as_eager(found: Any, model: nn.Module, exact: nn.Module, *inputs: Any):
    """Near eager PyTorch, up to a byte that is rounded to another neighbour, and no
    further from the floats than it is."""
    eager, wanted = model(*inputs), exact(*inputs)
    for ours, theirs, floats in zip(*map(tree_leaves, (found, eager, wanted))):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=2e-3)
        assert meaningful_strides(ours) == meaningful_strides(theirs)
        error = (theirs - floats).abs().max()
        assert (ours - floats).abs().max() <= 1.5 * error


class Recurrent(nn.Module):
    def __init__(self, kind: type[nn.RNNBase], **options: Any) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = kind(24, 32, **options)

    def forward(self, x: Tensor, state: Any = None) -> Any:
        return self.layer(x, state)


RECURRENT = {
    "lstm": (nn.LSTM, {}),
    "lstm of two layers": (
        nn.LSTM,
        {"num_layers": 2, "bidirectional": True, "batch_first": True},
    ),
    "lstm with dropout": (nn.LSTM, {"num_layers": 2, "dropout": 0.5}),
    "gru": (nn.GRU, {"batch_first": True}),
    "gru of two layers": (nn.GRU, {"num_layers": 2, "bidirectional": True}),
}


@pytest.mark.parametrize("batch", [1, 5])
@pytest.mark.parametrize("name", RECURRENT)
def test_recurrent(name, batch):
    kind, options = RECURRENT[name]
    exact = Recurrent(kind, **options).eval()
    model = quantised(exact)
    sizes = (batch, 7) if options.get("batch_first") else (7, batch)
    x = torch.randn(*sizes, 24)
    run = compiled(model, fullgraph=True)
    assert_as_eager(run(x), model, exact, x)
    count = exact.layer.num_layers * (2 if exact.layer.bidirectional else 1)
    state = torch.randn(count, batch, 32)
    given = (state, torch.randn_like(state)) if kind is nn.LSTM else state
    assert_as_eager(run(x, given), model, exact, x, given)
    assert_one_program()


def test_any_length():
    exact = Recurrent(nn.GRU).eval()
    model = quantised(exact)
    run = compiled(model, fullgraph=True, dynamic=True)
    for steps, batch in ((4, 3), (9, 2), (30, 6)):
        x = torch.randn(steps, batch, 24)
        assert_as_eager(run(x), model, exact, x)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("rows", [(1,), (6,), (2, 20)])
@pytest.mark.parametrize("config", ["tensor", "channel"])
def test_linear(config, rows, bias):
    torch.manual_seed(1)
    exact = nn.Sequential(nn.Linear(48, 80, bias), nn.ReLU(), nn.Linear(80, 10)).eval()
    configs = {
        "tensor": default_dynamic_qconfig,
        "channel": per_channel_dynamic_qconfig,
    }
    model = quantised(exact, configs[config])
    x = torch.randn(*rows, 48)
    run = compiled(model, fullgraph=True)
    assert_as_eager(run(x), model, exact, x)
    # A zero has a byte whatever the range is.
    for other in (x.abs(), -x.abs(), torch.zeros_like(x)):
        torch.testing.assert_close(run(other), model(other), rtol=0, atol=2e-3)
    assert_one_program()


def test_exports_are_refused(tmp_path):
    """torch.export cannot read the objects that hold the weights."""
    model, x = quantised(Recurrent(nn.LSTM)), torch.randn(6, 2, 24)
    with pytest.raises(CompileError, match=r"torch\.export can't trace the model"):
        anabranch.export(model, tmp_path / "layers.anb", (x,))


def float16(model: nn.Module) -> nn.Module:
    return quantised(model, float16_dynamic_qconfig)


def packed(x: Tensor) -> Any:
    return pack_padded_sequence(x, torch.tensor([7, 4, 2]))


@pytest.mark.parametrize(
    "make, inputs",
    [(float16, lambda x: x), (quantised, packed)],
    ids=["float16", "packed sequences"],
)
def test_others_run_in_pytorch(make, inputs):
    model = make(Recurrent(nn.LSTM))
    x = torch.randn(7, 3, 24)
    found, wanted = compiled(model)(inputs(x)), model(inputs(x))
    tree_map(torch.testing.assert_close, tuple(found[1]), tuple(wanted[1]))


def test_gradients_run_in_pytorch():
    model = quantised(nn.Sequential(nn.Linear(8, 8), nn.ReLU()))
    x = torch.randn(3, 8)
    with torch.enable_grad():
        torch.testing.assert_close(compiled(model)(x), model(x))


def test_wrong_shapes_are_errors():
    run = compiled(quantised(Recurrent(nn.LSTM)))
    for shape in ((7, 24), (7, 3, 23)):
        with pytest.raises(RuntimeError):
            run(torch.randn(shape))


def test_classes_have_their_methods_again():
    kinds = (made.Linear, made.LSTM, made.GRU)
    before = [kind.forward for kind in kinds]
    run = compiled(quantised(Recurrent(nn.LSTM)), fullgraph=True)
    x = torch.randn(7, 3, 24)
    run(x)
    assert [kind.forward for kind in kinds] == before
    with torch.compiler.set_stance("fail_on_recompile"):
        run(x)


def replace(model: nn.Module, other: nn.Module) -> None:
    model[0] = other[0]


def load(model: nn.Module, other: nn.Module) -> None:
    model.load_state_dict(other.state_dict())


def set_weights(model: nn.Module, other: nn.Module) -> None:
    found = other[0]._weight_bias()
    if isinstance(found, dict):
        found = ({**found["weight"], **found["bias"]},)
    model[0].set_weight_bias(*found)


@pytest.mark.parametrize("change", [replace, load, set_weights])
@pytest.mark.parametrize("kind", [nn.Linear, nn.LSTM, nn.GRU])
def test_other_weights_are_seen(kind, change):
    def make() -> nn.Module:
        return quantised(nn.Sequential(kind(24, 32)))

    x = torch.randn(5, 2, 24)
    model, others = make(), [make(), make()]
    run = compiled(model, fullgraph=True)
    for other in others:
        run(x)
        change(model, other)
        wanted = tree_leaves(other(x))
        assert all(map(torch.equal, tree_leaves(model(x)), wanted))
        for ours, theirs in zip(tree_leaves(run(x)), wanted):
            torch.testing.assert_close(ours, theirs, rtol=0, atol=2e-3)
    with torch.compiler.set_stance("fail_on_recompile"):
        run(x)
