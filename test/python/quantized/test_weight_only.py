"""PyTorch's weight-only products and torchao's quantised modules equal float64."""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest
import torch
from quantized_weights import reads_few_bits, relative_error
from torch import nn

import anabranch
from anabranch.capture.decompositions import weight_only

aten = torch.ops.aten


class Int8Product(nn.Module):
    def __init__(self, n: int, k: int) -> None:
        super().__init__()
        weight = torch.randint(-128, 128, (n, k), dtype=torch.int8)
        self.register_buffer("weight", weight)
        self.register_buffer("scales", (torch.rand(n) * 0.01 + 0.01).bfloat16())

    def forward(self, x):
        return torch._weight_int8pack_mm(x, self.weight, self.scales)

    def exact(self, x):
        return x.double() @ self.weight.double().t() * self.scales.double()


class ScaledAfter(nn.Module):
    """A product of whole numbers, which scales of columns multiply."""

    def __init__(self, n: int, k: int) -> None:
        super().__init__()
        weight = torch.randint(-128, 128, (n, k), dtype=torch.int8)
        self.register_buffer("weight", weight)
        self.register_buffer("scales", torch.rand(n) * 0.01 + 0.01)

    def forward(self, x):
        product = x.float() @ self.weight.float().t()
        return (product * self.scales).to(x.dtype)

    def exact(self, x):
        return x.double() @ self.weight.double().t() * self.scales.double()


class Int4Product(nn.Module):
    """A product by an int4 weight. With `packs` it packs the weight at each call."""

    def __init__(self, n: int, k: int, group: int, packs: bool) -> None:
        super().__init__()
        self.group, self.packs = group, packs
        self.register_buffer("whole", torch.randint(0, 16, (n, k), dtype=torch.int32))
        packed = aten._convert_weight_to_int4pack_for_cpu(self.whole, 2)
        self.register_buffer("packed", packed)
        parameters = torch.rand(k // group, n, 2) * 0.02 + 0.01
        self.register_buffer("parameters_", parameters.bfloat16())

    def forward(self, x):
        packed = self.packed
        if self.packs:
            packed = aten._convert_weight_to_int4pack_for_cpu(self.whole, 2)
        return aten._weight_int4pack_mm_for_cpu(x, packed, self.group, self.parameters_)

    def exact(self, x):
        scale, zero = (p.double().t().unsqueeze(-1) for p in self.parameters_.unbind(2))
        n, k = self.whole.shape
        whole = self.whole.double().view(n, -1, self.group) - 8
        return x.double() @ (whole * scale + zero).view(n, k).t()


def check(module: Any, x: torch.Tensor, dump: Any = None, freeze: bool = True) -> None:
    config = anabranch.Config(freeze=freeze, dump=None if dump is None else str(dump))
    with torch.no_grad():
        found = anabranch.compile(module.eval(), config=config, dynamic=False)(x)
        eager, expected = module(x), module.exact(x)
    assert found.dtype == eager.dtype
    allowed = 1.5 * relative_error(eager, expected) + 1e-6
    assert relative_error(found, expected) <= allowed
    assert anabranch.counters.fallback_calls == 0
    if dump is not None:
        assert reads_few_bits(dump)


@pytest.mark.parametrize("rows", [1, 6, 40])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_bytes_that_are_scaled_after_the_product(dtype, rows, tmp_path) -> None:
    check(ScaledAfter(70, 96), torch.randn(rows, 96).to(dtype), dump=tmp_path)


@pytest.mark.parametrize("rows", [1, 4, 33])
@pytest.mark.parametrize("size", [(64, 64), (80, 96), (16, 256)])
def test_int8(rows, size, tmp_path):
    x = torch.randn(rows, size[1]).bfloat16()
    check(Int8Product(*size), x, tmp_path if rows <= 32 else None)


@pytest.mark.parametrize("packs", [False, True])
@pytest.mark.parametrize("group", [32, 64, 128])
@pytest.mark.parametrize("rows", [1, 6])
@pytest.mark.parametrize("n", [16, 64, 112])
def test_int4(n, rows, group, packs, tmp_path):
    x = torch.randn(rows, 256).bfloat16()
    check(Int4Product(n, 256, group, packs), x, tmp_path)


@pytest.mark.parametrize("make", [Int8Product, Int4Product])
def test_live_weights(make):
    module = make(48, 64) if make is Int8Product else make(48, 64, 32, False)
    check(module, torch.randn(3, 64).bfloat16(), freeze=False)


@pytest.mark.parametrize("n", [16, 32, 48, 64, 96, 192])
def test_the_layout_of_int4(n):
    whole = torch.randint(0, 16, (n, 32), dtype=torch.int32)
    packed = aten._convert_weight_to_int4pack_for_cpu(whole, 2)
    assert torch.equal(weight_only.pack_int4(whole, 2), packed)
    assert torch.equal(weight_only.unpack_int4(packed).int(), whole)


# torchao


HAS_TORCHAO = importlib.util.find_spec("torchao") is not None
needs_torchao = pytest.mark.skipif(not HAS_TORCHAO, reason="torchao is not installed")


def torchao_config(name: str) -> Any:
    from torchao import quantization
    from torchao.quantization.granularity import PerAxis, PerGroup

    if name == "int8":
        return quantization.Int8WeightOnlyConfig()
    if name == "int8 dynamic":
        return quantization.Int8DynamicActivationInt8WeightConfig()
    kind, _, group = name.partition(" ")
    return quantization.IntxWeightOnlyConfig(
        weight_dtype=getattr(torch, kind),
        granularity=PerGroup(int(group)) if group else PerAxis(0),
    )


def torchao_model(name: str, dtype: torch.dtype) -> Any:
    from torchao.quantization import quantize_

    model = nn.Sequential(nn.Linear(128, 96), nn.SiLU(), nn.Linear(96, 64, bias=False))
    quantize_(model := model.to(dtype).eval(), torchao_config(name))
    return model


@needs_torchao
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("rows", [1, 5, 40])
@pytest.mark.parametrize(
    "name", ["int8", "int4 32", "int4", "int2 32", "int8 32", "int8 dynamic"]
)
def test_torchao(name, rows, dtype, tmp_path):
    model, x = torchao_model(name, dtype), torch.randn(rows, 128).to(dtype)
    config = anabranch.Config(freeze=True, dump=str(tmp_path))
    with torch.no_grad():
        found = anabranch.compile(model, config=config, dynamic=False)(x)
        expected = model(x)
    limit = 2e-6 if dtype == torch.float32 else 1e-2
    assert relative_error(found, expected) <= limit
    assert anabranch.counters.fallback_calls == 0
    if name != "int8 dynamic" and rows <= 32:
        assert reads_few_bits(tmp_path)
    texts = [path.read_text() for path in tmp_path.rglob("*.json")]
    bits = "array<i64: 4" if name.startswith(("int4", "int2")) else "array<i64: 8"
    if name != "int8 dynamic" and rows <= 32:
        fused = [path.read_text() for path in tmp_path.rglob("*fuse.mlir")]
        assert all(f"quantized_weight = {bits}" in text for text in fused)
    assert all('"kind": "constant"' in text for text in texts)


@needs_torchao
def test_torchao_weights_that_change():
    model, x = torchao_model("int4 32", torch.float32), torch.randn(2, 128)
    compiled = anabranch.compile(model, freeze=True, dynamic=False)
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), model(x))
        model[0].weight.qdata.copy_(torch.randint(-8, 8, (96, 128)))
        model[2].weight.scale.mul_(2)
        torch.testing.assert_close(compiled(x), model(x))
        # A weight of more bits than at the time of compiling.
        model[0].weight.qdata.copy_(torch.randint(-128, 128, (96, 128)))
        torch.testing.assert_close(compiled(x), model(x), rtol=1e-5, atol=1e-5)
