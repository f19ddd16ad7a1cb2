"""Products of rounded weights against float64. Needs no vLLM."""

from __future__ import annotations

import pytest
import torch
from rounded_models import packed
from torch import Tensor, nn

import anabranch
from anabranch_vllm import linear, rounded_linear

ROWS, COLUMNS = 48, 96
F32, BF16 = torch.float32, torch.bfloat16


def served(function):
    """Compiles a function as vLLM compiles a model: one graph without guards."""
    return torch.compile(
        function,
        backend=anabranch.anabranch,
        fullgraph=True,
        dynamic=False,
        options={
            "guard_filter_fn": torch.compiler.skip_all_guards_unsafe,
            "watch": "always",
        },
    )


def parameter(values: Tensor) -> nn.Parameter:
    return nn.Parameter(values, requires_grad=False)


def close(found: Tensor, expected: Tensor) -> None:
    """`expected` is in float64."""
    precision = {F32: 1e-5, BF16: 2e-2}[found.dtype]
    torch.testing.assert_close(
        found.double(), expected, rtol=precision, atol=precision * float(expected.std())
    )


def test_words_are_half_bytes() -> None:
    values = torch.randint(0, 16, (5, 24))
    words = packed(values)
    pairs = rounded_linear.half_bytes(words)
    assert torch.equal(pairs & 15, values[:, 0::2].to(torch.uint8))
    assert torch.equal(pairs >> 4, values[:, 1::2].to(torch.uint8))
    assert torch.equal(rounded_linear.integers(words), values.to(torch.uint8))
    turned = rounded_linear.half_bytes(words.t().contiguous().t())
    assert torch.equal(turned, pairs)


@pytest.mark.parametrize(
    ("dtype", "groups", "has_offset"),
    [(F32, 3, True), (BF16, 3, False), (BF16, 1, True)],
)
def test_half_bytes(dtype, groups, has_offset) -> None:
    values = torch.randint(0, 16, (ROWS, COLUMNS))
    scale = parameter((torch.rand(ROWS, groups) + 0.5) / 8)
    zeros = torch.randint(0, 16, (ROWS, groups)) if has_offset else 8
    offset = parameter(-zeros * scale) if has_offset else None
    weight = parameter(rounded_linear.half_bytes(packed(values)))
    bias = parameter(torch.randn(ROWS).to(dtype))
    shift, wide = torch.as_tensor(zeros).expand(ROWS, groups), scale.double()
    size = COLUMNS // groups
    exact = values - shift.repeat_interleave(size, 1)
    exact = exact.double() * wide.repeat_interleave(size, 1)
    center = 0 if has_offset else 8
    product = linear.Program(rounded_linear.multiply_half_bytes)
    layer = served(lambda x: product(x, weight, scale, offset, center, bias))
    for rows in (7, 1, 40):
        x = torch.randn(rows, COLUMNS).to(dtype)
        torch._dynamo.mark_dynamic(x, 0)
        expected = x.double() @ exact.t() + bias.double()
        with torch.no_grad():
            close(layer(x), expected)
    assert anabranch.counters.graphs == 1
    assert anabranch.counters.fallback_calls == 0


@pytest.mark.parametrize(
    ("dtype", "has_zeros", "is_static"),
    [(F32, False, False), (BF16, True, False), (BF16, False, True), (F32, True, True)],
)
def test_bytes(dtype, has_zeros, is_static) -> None:
    weight = parameter(torch.randint(-127, 128, (ROWS, COLUMNS), dtype=torch.int8))
    scale = parameter((torch.rand(ROWS) + 0.5) / 127)
    sums = parameter(weight.sum(1, dtype=torch.float32)) if has_zeros else None
    step = parameter(torch.tensor(0.02)) if is_static else None
    zero = parameter(torch.tensor(9.0)) if is_static and has_zeros else None
    bias = parameter(torch.randn(ROWS).to(dtype))
    product = linear.Program(rounded_linear.multiply_bytes)
    layer = served(lambda x: product(x, weight, scale, sums, step, zero, bias))
    for rows in (7, 1, 40):
        x = torch.randn(rows, COLUMNS).to(dtype)
        x[0] = 0
        torch._dynamo.mark_dynamic(x, 0)
        rounded = fake_quantized(x.float(), step, zero, has_zeros)
        expected = rounded.double() @ (weight.double() * scale.double()[:, None]).t()
        with torch.no_grad():
            close(layer(x), expected + bias.double())
    assert anabranch.counters.graphs == 1
    assert anabranch.counters.fallback_calls == 0


def small_floats(x: Tensor, rounding: str, step: Tensor | None) -> Tensor:
    """The floats for which rounded activations stand."""
    if rounding == "none":
        return x.double()
    if step is None:
        over = x.abs().amax(-1, keepdim=True) if rounding == "row" else x.abs().max()
        step = (over / 448).clamp(min=1 / (448 * 512))
    rounded = (x * step.reciprocal()).clamp(-448, 448).to(torch.float8_e4m3fn)
    return rounded.double() * step.double()


@pytest.mark.parametrize("rounding", ["none", "row", "tensor", "static"])
@pytest.mark.parametrize("dtype", [F32, BF16])
def test_small_floats(dtype, rounding) -> None:
    weight = parameter(torch.randn(ROWS, COLUMNS).to(torch.float8_e4m3fn))
    scale = parameter(torch.rand(ROWS if rounding == "row" else 1) + 0.5)
    step = parameter(torch.tensor(0.01)) if rounding == "static" else None
    rounding = rounding.replace("static", "tensor")
    bias = parameter(torch.randn(ROWS).to(dtype))
    product = linear.Program(rounded_linear.multiply_small_floats)
    layer = served(lambda x: product(x, weight, scale, rounding, step, bias))
    exact = weight.double() * scale.double().reshape(-1, 1)
    for rows in (7, 1, 40):
        x = torch.randn(rows, COLUMNS).to(dtype)
        x[0] = 0
        torch._dynamo.mark_dynamic(x, 0)
        expected = small_floats(x.float(), rounding, step) @ exact.t() + bias.double()
        with torch.no_grad():
            close(layer(x), expected)
    assert anabranch.counters.graphs == 1
    assert anabranch.counters.fallback_calls == 0


@pytest.mark.parametrize("dtype", [F32, BF16])
def test_blocks_of_small_floats(dtype) -> None:
    height, width = 32, 48  # the last block of rows is half a block
    weight = parameter(torch.randn(ROWS, COLUMNS).to(torch.float8_e4m3fn))
    scale = parameter(torch.rand(2, COLUMNS // width) + 0.5)
    bias = parameter(torch.randn(ROWS).to(dtype))
    product = linear.Program(rounded_linear.multiply_blocks)
    layer = served(lambda x: product(x, weight, scale, height, bias))
    each = scale.double().repeat_interleave(height, 0)[:ROWS]
    exact = weight.double() * each.repeat_interleave(width, 1)
    for rows in (7, 1, 40):
        x = torch.randn(rows, COLUMNS).to(dtype)
        torch._dynamo.mark_dynamic(x, 0)
        with torch.no_grad():
            close(layer(x), x.double() @ exact.t() + bias.double())
    assert anabranch.counters.graphs == 1
    assert anabranch.counters.fallback_calls == 0


def fake_quantized(x: Tensor, step, zero, has_zeros: bool) -> Tensor:
    """The floats that the bytes of each row stand for, by PyTorch's operator."""
    found = torch.zeros_like(x)
    for row, values in enumerate(x):
        own, center = step, zero
        if step is None and has_zeros:
            own = (values.max() - values.min()) / 255
            center = torch.round(-128 - values.min() / own)
        elif step is None:
            own = values.abs().max() / 127
        if own > 0:
            place = 0 if center is None else int(center)
            found[row] = torch.fake_quantize_per_tensor_affine(
                values, float(own), place, -128, 127
            )
    return found


def test_outside_of_graphs_a_layer_is_a_program() -> None:
    weight = parameter(torch.randint(-127, 128, (ROWS, COLUMNS), dtype=torch.int8))
    scale = parameter(torch.rand(ROWS) / 127)
    product = linear.Program(rounded_linear.multiply_bytes)
    for rows in (5, 1, 3):
        x = torch.randn(rows, COLUMNS)
        with torch.no_grad():
            found = product(x, weight, scale, None, None, None, None)
        eager = rounded_linear.multiply_bytes(x, weight, scale, None, None, None, None)
        torch.testing.assert_close(found, eager)
    assert anabranch.counters.graphs == 1


def test_packed_weights_follow_a_reload() -> None:
    layer = nn.Module()
    layer.codes = parameter(torch.zeros(2, dtype=torch.uint8))
    linear.set_packed(layer, "codes")
    layer.codes = parameter(torch.ones(2, dtype=torch.uint8))
    (found,) = linear.packed_weights(nn.Sequential(layer))
    assert found is layer.codes
