"""quantize=: integers fit the weights; tokens equal those of the quantised model."""

from __future__ import annotations

import pytest
import torch
from decoders import PLAIN, gpt2, llama, prompt
from torch import nn

from anabranch import llm
from anabranch.llm import quantize


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
