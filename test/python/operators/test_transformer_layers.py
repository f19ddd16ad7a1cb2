"""The operators that PyTorch's own layers of transformers call without gradients."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import anabranch
from anabranch import anabranch as backend

ROWS, LENGTH, WIDTH, HEADS = 3, 7, 32, 4


def check(function, *arguments, **named) -> None:
    """Equal to the graph that eager PyTorch runs, with the same strides, and without a
    call of PyTorch.

    Traced, `MultiheadAttention` calls `scaled_dot_product_attention`, which gives zero
    for a row that sees no key. Its own operator gives NaN there."""
    torch._dynamo.reset()
    traced = torch.compile(function, backend="eager", fullgraph=True)
    compiled = torch.compile(function, backend=backend, fullgraph=True)
    with torch.no_grad():
        expected = traced(*arguments, **named)
        found = compiled(*arguments, **named)
    torch.testing.assert_close(
        found, expected, atol=2e-5, rtol=2e-5, equal_nan=True, check_stride=True
    )
    assert anabranch.last_report()["fallbacks"] == []


def padding() -> torch.Tensor:
    """No padding, some, and a sequence of nothing else."""
    mask = torch.zeros(ROWS, LENGTH, dtype=torch.bool)
    mask[1, 4:] = True
    mask[2] = True
    return mask


@pytest.mark.parametrize("activation", ["gelu", "relu"])
@pytest.mark.parametrize("norm_first", [False, True])
def test_encoder_layers(norm_first: bool, activation: str) -> None:
    layer = nn.TransformerEncoderLayer(
        WIDTH, HEADS, 64, batch_first=True, norm_first=norm_first, activation=activation
    ).eval()
    x = torch.randn(ROWS, LENGTH, WIDTH)
    check(layer, x)
    check(layer, x, src_key_padding_mask=padding())
    later = torch.ones(LENGTH, LENGTH, dtype=torch.bool).triu(1)
    check(layer, x, src_mask=later)


@pytest.mark.parametrize(
    ("weights", "average"), [(False, True), (True, True), (True, False)]
)
def test_attention(weights: bool, average: bool) -> None:
    layer = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True).eval()
    options = {"need_weights": weights, "average_attn_weights": average}
    x, y = torch.randn(ROWS, LENGTH, WIDTH), torch.randn(ROWS, LENGTH, WIDTH)
    check(layer, x, x, x, **options)
    check(layer, x, y, y, **options)
    check(layer, x, y, y + 1, **options)
    check(layer, x, x, x, key_padding_mask=padding(), **options)


def test_halves_and_other_lengths() -> None:
    layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 64, batch_first=True).eval()
    torch._dynamo.reset()
    compiled = torch.compile(layer.bfloat16(), backend=backend, dynamic=True)
    reference = nn.TransformerEncoderLayer(WIDTH, HEADS, 64, batch_first=True)
    reference.load_state_dict(layer.float().state_dict())
    reference.double().eval()
    layer.bfloat16()
    for length in (5, 9, 33):
        x = torch.randn(2, length, WIDTH, dtype=torch.bfloat16)
        with torch.no_grad():
            exact = reference(x.double())
            own = (compiled(x).double() - exact).square().mean()
            eager = (layer(x).double() - exact).square().mean()
        assert own <= 2 * eager
