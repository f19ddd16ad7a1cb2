"""Operators of PyTorch's quantisation (PT2E) give eager's results, in kernels."""

from __future__ import annotations

import pytest
import torch
from quantized_weights import multiplies_bytes
from torch import nn
from torch.ao.quantization.fx import _decomposed  # noqa: F401 - registers operators

import anabranch

q = torch.ops.quantized_decomposed
I8 = (-128, 127, torch.int8)
U8 = (0, 255, torch.uint8)
SCALE, ZERO = torch.tensor([0.03], dtype=torch.double), torch.tensor([11])
LOW, HIGH = torch.tensor(0), torch.tensor(255)


def compare(function, *inputs):
    with torch.no_grad():
        compiled = torch.compile(function, backend="anabranch", fullgraph=True)
        found, expected = compiled(*inputs), function(*inputs)
    torch.testing.assert_close(found, expected, rtol=0, atol=0)
    assert anabranch.counters.fallback_calls == 0
    assert anabranch.counters.eager_graphs == 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_tensors_become_integers(dtype):
    x = torch.randn(5, 64).to(dtype) * 3
    scales, zeros = torch.rand(5) / 20 + 0.01, torch.randint(-9, 9, (5,))
    groups = torch.rand(5, 2) / 20 + 0.01, torch.randint(-9, 9, (5, 2))

    def function(x):
        return (
            q.quantize_per_tensor(x, 0.03, 11, *U8),
            q.quantize_per_tensor.tensor(x, SCALE, ZERO, *U8),
            q.quantize_per_tensor.tensor2(x, SCALE, ZERO, LOW, HIGH, torch.uint8),
            q.quantize_per_channel(x, scales, zeros, 0, *I8),
            q.quantize_per_channel(x.t(), scales, zeros, 1, *I8),
            q.quantize_per_token(x, scales.view(5, 1), zeros.view(5, 1), *I8),
            q.quantize_per_channel_group(x, *groups, *I8, 32),
        )

    compare(function, x)


@pytest.mark.parametrize("out", [torch.float32, torch.bfloat16])
def test_integers_become_floats(out):
    bytes_ = torch.randint(0, 256, (5, 64), dtype=torch.uint8)
    x = torch.randint(-128, 128, (5, 64), dtype=torch.int8)
    scales, zeros = torch.rand(5) / 20 + 0.01, torch.randint(-9, 9, (5,))
    wide = scales.double().view(5, 1), zeros.view(5, 1)
    more = {"out_dtype": out}

    def function(x, bytes_):
        return (
            q.dequantize_per_tensor(bytes_, 0.03, 11, *U8, **more),
            q.dequantize_per_tensor.tensor(bytes_, SCALE, ZERO, *U8, **more),
            q.dequantize_per_tensor.tensor2(
                bytes_, SCALE, ZERO, LOW, HIGH, torch.uint8, **more
            ),
            q.dequantize_per_channel(x, scales, zeros, 0, *I8, **more),
            q.dequantize_per_channel(x.t(), scales, None, 1, *I8, **more),
            q.dequantize_per_channel(x.int(), scales, zeros, 0, *I8[:2], torch.int32),
            q.dequantize_per_token(x, *wide, *I8, out),
            q.dequantize_per_channel_group(
                x, torch.stack([scales] * 2, 1), None, *I8, 32, out
            ),
            q.convert_element_type.no_fuse(x, out),
        )

    compare(function, x, bytes_)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("shift", [-9, 0, 9])
def test_scales_and_zero_points_of_a_call(dtype, shift):
    least = torch.finfo(torch.float32).eps

    def function(x):
        return (
            q.choose_qparams.tensor(x, 0, 255, least, torch.uint8),
            q.choose_qparams_symmetric.tensor(x, -127, 127, least, torch.int8),
            q.choose_qparams_symmetric.tensor(x, 0, 255, least, torch.uint8),
            q.choose_qparams_per_token_asymmetric(x, torch.int8),
        )

    compare(function, (torch.randn(5, 64) + shift).to(dtype))


@pytest.mark.parametrize("freeze", [False, True])
@pytest.mark.parametrize("dynamic", [False, True])
def test_a_model_of_pt2e(freeze, dynamic, tmp_path):
    pytest.importorskip("torchao")
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
    from torchao.quantization.pt2e.quantizer.x86_inductor_quantizer import (
        X86InductorQuantizer,
        get_default_x86_inductor_quantization_config,
    )

    # Only static quantisation has convolutions.
    convolutions = [
        nn.Conv2d(3, 16, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(16, 8, 3, stride=2, bias=False),
    ]
    model = nn.Sequential(
        *([] if dynamic else convolutions),
        nn.Flatten(),
        nn.Linear(147 if dynamic else 72, 96),
        nn.ReLU(),
        nn.Linear(96, 64),
    ).eval()
    x = torch.randn(4, 3, 7, 7)
    kind = get_default_x86_inductor_quantization_config(is_dynamic=dynamic)
    with torch.no_grad():
        graph = torch.export.export(model, (x,)).module()
        prepared = prepare_pt2e(graph, X86InductorQuantizer().set_global(kind))
        prepared(x)
        quantised = convert_pt2e(prepared)
        expected = quantised(x)
        config = anabranch.Config(freeze=freeze, dump=str(tmp_path))
        found = anabranch.compile(quantised, config=config, dynamic=False)(x)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    assert anabranch.counters.fallback_calls == 0
    assert multiplies_bytes(tmp_path)
