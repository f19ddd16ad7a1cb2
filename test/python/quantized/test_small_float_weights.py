"""Products of floats of eight bits: frozen weights stay in their bytes, and results are
as near to float64 as eager's."""

from __future__ import annotations

import pytest
import torch
from quantized_weights import reads_few_bits, relative_error
from torch import nn

import anabranch

SMALL = [
    torch.float8_e4m3fn,
    torch.float8_e5m2,
    torch.float8_e4m3fnuz,
    torch.float8_e5m2fnuz,
]


class Linear(nn.Module):
    """A weight [n, k] with a scale for each `group` of k (0: for all)."""

    def __init__(self, small: torch.dtype, dtype: torch.dtype, group: int) -> None:
        super().__init__()
        n, k = 80, 96
        self.register_buffer("weight", torch.randn(n, k).to(small))
        scale = torch.rand(n, k // group if group else 1) + 0.5
        self.register_buffer("scale", scale.to(dtype))

    def _weight(self, dtype: torch.dtype) -> torch.Tensor:
        groups = self.weight.to(dtype).unflatten(1, (self.scale.shape[1], -1))
        return (groups * self.scale.to(dtype).unsqueeze(-1)).flatten(1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.linear(x, self._weight(x.dtype))

    def exact(self, x: torch.Tensor) -> torch.Tensor:
        return x.double() @ self._weight(torch.float64).t()


def check(module, *arguments, dump) -> None:
    config = anabranch.Config(freeze=True, dump=str(dump))
    with torch.no_grad():
        found = anabranch.compile(module, config=config, dynamic=False)(*arguments)
        eager, expected = module(*arguments), module.exact(*arguments)
    assert found.dtype == eager.dtype
    allowed = 1.5 * relative_error(eager, expected) + 1e-6
    assert relative_error(found, expected) <= allowed
    assert anabranch.counters.fallback_calls == 0
    assert reads_few_bits(dump)


@pytest.mark.parametrize("group", [0, 32])
@pytest.mark.parametrize("rows", [1, 33])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("small", SMALL)
def test_a_weight_stays_in_its_bytes(small, dtype, rows, group, tmp_path) -> None:
    x = torch.randn(rows, 96).to(dtype)
    check(Linear(small, dtype, group), x, dump=tmp_path)


class ScaledAfter(Linear):
    """A product of codes, which scales of columns multiply."""

    def __init__(self, small: torch.dtype, dtype: torch.dtype, k: int) -> None:
        super().__init__(small, dtype, 0)
        self.register_buffer("weight", torch.randn(80, k).to(small))
        self.register_buffer("scale", torch.rand(80) + 0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        product = torch.mm(x.float(), self.weight.float().t())
        return (product * self.scale).to(x.dtype)

    def exact(self, x: torch.Tensor) -> torch.Tensor:
        return x.double() @ (self.weight.double() * self.scale.double()[:, None]).t()


@pytest.mark.parametrize("k", [96, 90, 87])
@pytest.mark.parametrize("rows", [1, 5, 33])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, "small"])
@pytest.mark.parametrize("small", SMALL)
def test_codes_multiply_narrow_floats(small, dtype, rows, k, tmp_path) -> None:
    """Activations of bf16, and of floats of eight bits, are multiplied as bf16."""
    x = torch.randn(rows, k)
    x = x.to(small).float() if dtype == "small" else x.to(dtype)
    module = ScaledAfter(small, x.dtype, k)
    if dtype == "small":
        module.forward = lambda x: ScaledAfter.forward(module, x.to(small).float())
    check(module, x, dump=tmp_path)


class Scaled(nn.Module):
    """torch._scaled_mm by a weight [n, k], with scales of rows and columns."""

    def __init__(self, dtype: torch.dtype, rowwise: bool) -> None:
        super().__init__()
        self.dtype, self.rowwise = dtype, rowwise
        weight = torch.randn(80, 96).to(torch.float8_e4m3fn)
        self.register_buffer("weight", weight)
        scale = torch.rand(1, 80) + 0.5 if rowwise else torch.tensor(0.7)
        self.register_buffer("scale", scale)
        self.register_buffer("bias", torch.randn(80).to(dtype))

    def _left(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        largest = x.abs().amax(-1, True) if self.rowwise else x.abs().max()
        scale = largest / 448
        return (x / scale).to(torch.float8_e4m3fn), scale

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        left, scale = self._left(x)
        return torch._scaled_mm(
            left,
            self.weight.t(),
            scale_a=scale,
            scale_b=self.scale,
            bias=self.bias,
            out_dtype=self.dtype,
        )

    def exact(self, x: torch.Tensor) -> torch.Tensor:
        left, scale = self._left(x)
        right = self.weight.double() * self.scale.double().t()
        return (left.double() * scale.double()) @ right.t() + self.bias.double()


@pytest.mark.parametrize("rowwise", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_scaled_products(dtype, rowwise, tmp_path) -> None:
    check(Scaled(dtype, rowwise), torch.randn(6, 96), dump=tmp_path)


@pytest.mark.parametrize("kind", [Linear, ScaledAfter])
@pytest.mark.parametrize("target", ["portable", "avx2", "avx512", "avx512bf16"])
def test_packages_for_other_instruction_sets(target, kind, tmp_path) -> None:
    group_or_depth = 0 if kind is Linear else 96
    module = kind(torch.float8_e4m3fn, torch.bfloat16, group_or_depth)
    x = torch.randn(4, 96).bfloat16()
    path = tmp_path / "model.anb"
    anabranch.export(module.eval(), path, (x,), targets=[target])
    found = anabranch.load(path)(x)
    expected = module.exact(x)
    allowed = 1.5 * relative_error(module(x), expected) + 1e-6
    assert relative_error(found, expected) <= allowed
