"""quantize=: integers fit the weights and what they multiply; tokens equal those of the
quantised model."""

from __future__ import annotations

import copy

import pytest
import torch
from decoders import PLAIN, gpt2, llama, prompt
from torch import nn

from anabranch import llm
from anabranch.llm import quantize, rounded_models
from anabranch.llm.quantized_layers import QuantizedLinear
from anabranch.llm.rounding.error_feedback import Columns
from anabranch.llm.rounding.output_gradients import squared_gradients
from anabranch.llm.rounding.weight_fits import eight_bits, four_bits, four_bits_in_turn


def layer(weight: torch.Tensor, kind: str):
    rows, columns = weight.shape
    linear = nn.Linear(columns, rows, bias=False)
    linear.weight.data = weight
    return quantize.quantized(nn.Sequential(linear), kind)[0]


def error(weight: torch.Tensor, kind: str) -> float:
    found = layer(weight, kind).dequantized()
    return ((found - weight).norm() / weight.norm()).item()


@pytest.mark.parametrize("make", [llama, gpt2], ids=lambda make: make.__name__)
@pytest.mark.parametrize("kind", ["int8", "int4"])
def test_tokens_equal_those_of_the_quantised_model(make, kind, tmp_path):
    model = make()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    compiled = llm.compile(
        model, quantize=kind, max_batch=2, max_length=40, dump=str(tmp_path)
    )
    eager = quantize.quantized(model, kind)
    for rows, length in ((1, 18), (2, 9)):
        tokens = prompt(rows, length)
        arguments = PLAIN | {"max_new_tokens": 12}
        expected = eager.generate(tokens, **arguments)
        assert torch.equal(compiled.generate(tokens, **arguments), expected)
    texts = [path.read_text() for path in tmp_path.rglob("*fuse.mlir")]
    assert any("anabranch.quantized_weight" in text for text in texts)
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name])


def test_weights_on_a_grid_stay_as_they_are():
    whole = torch.randint(0, 16, (6, 64)).float()
    whole[:, ::32], whole[:, 1::32] = 0, 15
    assert error(whole * 0.25 - 3, "int4") < 1e-7
    signed = torch.randint(-127, 128, (6, 64)).float()
    signed[:, ::64] = 127
    assert error(signed * 0.5, "int8") < 1e-7


def test_scales_fit_by_least_squares():
    weight = torch.randn(64, 256)
    groups = weight.view(64, -1, 32)
    low, high = groups.amin(-1, keepdim=True), groups.amax(-1, keepdim=True)
    plain = ((groups - low) / (high - low) * 15).round() / 15 * (high - low) + low
    nearest = ((plain - groups).norm() / groups.norm()).item()
    assert error(weight, "int4") < 0.98 * nearest
    assert error(weight, "int8") < 0.01


@pytest.mark.parametrize("kind", ["int8", "int4"])
def test_rows_and_groups_of_one_number(kind):
    weight = torch.zeros(3, 64)
    assert torch.equal(layer(weight, kind).dequantized(), weight)
    weight[1] = 2.5
    # A scale has the precision of float16.
    found = layer(weight, kind)
    assert found.scale.dtype == torch.float16
    torch.testing.assert_close(found.dequantized(), weight, rtol=2**-11, atol=0)


@pytest.mark.parametrize("kind", ["int8", "int4"])
@pytest.mark.parametrize("size", [1e-9, 1e9])
def test_scales_that_float16_lacks_are_float32(kind, size):
    weight = torch.randn(4, 64) * size
    assert layer(weight, kind).scale.dtype == torch.float32
    assert error(weight, kind) < (0.01 if kind == "int8" else 0.1)


def test_columns_without_groups_have_eight_bits():
    assert layer(torch.randn(4, 48), "int4").weight.dtype == torch.int8
    assert layer(torch.randn(4, 64), "int4").weight.dtype == torch.uint8


def test_the_logits_have_eight_bits():
    model = quantize.quantized(llama(), "int4")
    assert model.lm_head.weight.dtype == torch.int8
    assert model.model.layers[0].mlp.up_proj.weight.dtype == torch.uint8


def correlated(tokens: int, columns: int) -> torch.Tensor:
    """Inputs whose columns go together, and are large and small."""
    mix = torch.randn(columns // 4, columns)
    x = torch.randn(tokens, columns // 4) @ mix + torch.randn(tokens, columns) / 4
    return x * torch.logspace(-1, 1, columns)[torch.randperm(columns)]


def test_errors_count_as_much_as_their_column_is_read():
    x, weight = correlated(512, 128), torch.randn(48, 128)

    def result_error(found) -> float:
        error = found.dequantized(torch.float64) - weight.double()
        return (x.double() @ error.T).norm().item()

    even = result_error(four_bits(weight))
    counted = result_error(four_bits(weight, x.square().mean(0)))
    in_turn = result_error(four_bits_in_turn(weight, Columns(x)))
    assert counted < 0.9 * even
    assert in_turn < 0.6 * counted
    assert result_error(eight_bits(weight)) < 0.2 * counted


@pytest.mark.parametrize("tokens", [1, 40, 400])
@pytest.mark.parametrize("spread", [0, 1, 30])
def test_no_row_is_worse_than_rounded_to_nearest(tokens, spread):
    weight = torch.randn(64, 96) * torch.exp(spread * torch.rand(64, 1))
    weight[::7, ::5] *= 20
    weight[1], weight[2, 32:] = 0, 3
    columns = Columns(correlated(tokens, 96))

    def costs(found) -> torch.Tensor:
        error = found.dequantized(torch.float64) - weight.double()
        return ((error @ columns.products.double()) * error).sum(1)

    nearest = costs(four_bits(weight, columns.importance))
    in_turn = costs(four_bits_in_turn(weight, columns))
    assert (in_turn <= nearest * (1 + 1e-4) + 1e-30).all()


@pytest.mark.parametrize(
    "x", [torch.zeros(4, 64), torch.ones(1, 64), torch.full((3, 64), 1e-30)]
)
def test_inputs_that_say_little_leave_weights_near(x):
    weight = torch.randn(8, 64)
    found = four_bits_in_turn(weight, Columns(x)).dequantized()
    assert (found - weight).norm() < 0.5 * weight.norm()
    assert torch.equal(found, four_bits_in_turn(weight, Columns(x)).dequantized())


class Layers(nn.Module):
    """What quantize needs of a language model. The last layer is read by some runs."""

    def __init__(self, runs: int = 2) -> None:
        super().__init__()
        self.embed = nn.Embedding(50, 64)
        self.layers = nn.ModuleList(nn.Linear(64, 64) for _ in range(24))
        self.parts = [1.0] * 24  # how much of a layer's result is read
        self.runs = runs
        self.config = llama().config

    def get_input_embeddings(self):
        return self.embed

    def forward(self, tokens, use_cache):
        assert use_cache is False
        x = self.embed(tokens)
        for layer, part in zip(self.layers[:-1], self.parts):
            x = x + part * torch.tanh(layer(x))
        counter = self.embed.__dict__
        counter["run"] = counter.get("run", 0) + 1
        return self.layers[-1](x) if counter["run"] <= self.runs else x


@pytest.mark.parametrize("inference", [False, True])
def test_layers_whose_errors_matter_most_have_bytes(inference):
    model = Layers()
    # One weight of each group is far from the others.
    for number in (3, 7):
        model.layers[number].weight.data[:, ::32] = 1
    model.parts[7] = 1e-3
    with torch.inference_mode(inference):
        found = quantize.quantized(model, "int4")
    in_bytes = [layer.weight.dtype == torch.int8 for layer in found.layers]
    assert sum(in_bytes) == 3
    assert in_bytes[3] and not in_bytes[7]
    assert all(value.grad is None for value in model.parameters())


def test_layers_that_four_bits_leave_as_they_are_get_no_bytes():
    model = Layers()
    for layer in model.layers:
        steps = torch.randint(0, 16, layer.weight.shape).float()
        # Each group of 32 columns has both ends of its line.
        steps[:, ::32], steps[:, 1::32] = 0, 15
        layer.weight.data = steps / 64 - 0.1
    found = quantize.quantized(model, "int4")
    assert not any(layer.weight.dtype == torch.int8 for layer in found.layers)


def test_layers_made_in_inference_mode_have_no_gradients():
    with torch.inference_mode():
        model = Layers()
        for number in (3, 11, 15):
            model.layers[number].weight[:, ::32] = 1
        found = quantize.quantized(model, "int4")
    in_bytes = [layer.weight.dtype == torch.int8 for layer in found.layers]
    assert in_bytes[3] and in_bytes[11] and in_bytes[15] and sum(in_bytes) == 3


def test_gradients_are_those_of_the_loss():
    """Moves each output of one layer a little: the loss moves by gradient times step."""
    torch.manual_seed(1)
    model, tokens = Layers(runs=99).double(), torch.randint(0, 50, (1, 1))
    layer = model.layers[5]
    found = squared_gradients(model, [layer], tokens)[layer]
    with torch.no_grad():
        first = model(tokens, False)[0]
        generator = torch.Generator().manual_seed(0)
        word = torch.multinomial(first.float().softmax(-1), 1, generator=generator)[0]

        def loss() -> torch.Tensor:
            return -model(tokens, False)[0].log_softmax(-1)[0, word]

        for output in range(4):
            moved = []
            for step in (1e-5, -1e-5):
                layer.bias[output] += step
                moved.append(loss())
                layer.bias[output] -= step
            slope = (moved[0] - moved[1]) / 2e-5
            assert slope.square().item() == pytest.approx(
                found[output].item(), rel=1e-3
            )


@pytest.mark.parametrize("runs", [0, 1, 2])
def test_layers_that_a_text_does_not_reach_are_quantised_too(runs):
    model, text = Layers(runs), prompt(1, 30) % 50
    found = quantize.quantized(model, "int4", text)
    assert all(type(layer) is QuantizedLinear for layer in found.layers)
    for layer, other in zip(found.layers, model.layers):
        error = layer.dequantized() - other.weight
        assert error.norm() < 0.2 * other.weight.norm()


@pytest.mark.parametrize("kind", ["int8", "int4", "text"])
def test_quantised_layers_are_kept(kind, tmp_path, monkeypatch):
    monkeypatch.delenv("ANABRANCH_CACHE")
    monkeypatch.setenv("ANABRANCH_CACHE_HOME", str(tmp_path))
    model, more = llama(), {"quantize": kind}
    if kind == "text":
        more = {"quantize": "int4", "calibration": [torch.arange(9), [1, 2, 3]]}
    with torch.no_grad():
        first = llm.compile(model, max_length=40, **more)._steps.model.state_dict()
    # Another model with the same values, as another process has.
    monkeypatch.setattr(rounded_models, "quantized", None)
    other = copy.deepcopy(model)
    again = llm.compile(other, max_length=40, **more)._steps.model.state_dict()
    assert first.keys() == again.keys()
    assert all(torch.equal(value, again[name]) for name, value in first.items())
    model.model.layers[0].mlp.up_proj.weight.data[0, 0] += 1
    with pytest.raises(TypeError):  # other weights are other entries
        llm.compile(model, max_length=40, **more)


@pytest.mark.parametrize(
    ("calibration", "text"),
    [
        ([], "no tokens"),
        ([[1, 2], [10**6]], "the token 1000000"),
        ([-1], "the token -1"),
        (torch.ones(3), "torch.float32"),
        ("a text", "call the tokenizer"),
        (["a", "text"], "call the tokenizer"),
    ],
)
def test_wrong_calibrations_are_errors(calibration, text):
    with pytest.raises(ValueError, match=text):
        llm.compile(llama(), quantize="int4", calibration=calibration)


def test_only_four_bits_are_calibrated():
    for kind in ("int8", None):
        with pytest.raises(ValueError, match="is for quantize='int4'"):
            llm.compile(llama(), quantize=kind, calibration=[1, 2])
