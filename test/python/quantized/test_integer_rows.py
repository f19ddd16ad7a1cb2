"""Rows that a graph rounds to bytes multiply weights with scales along the depth by
integers: torchao's dynamic activations with weights of 4 and 8 bits in groups."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import hypothesis
import pytest
import torch
from checking import exported_for
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from quantized_weights import Case, Quantized
from torch import nn

import anabranch

TARGETS = ["avx2", "avxvnni", "avx512", "avx512vnni", "amx"]


class RoundedRows(nn.Module):
    """The product of quantised rows by a weight, as torchao writes it."""

    def __init__(self, case: Case, zeros: bool, bias: bool) -> None:
        super().__init__()
        self.weights = Quantized(dataclasses.replace(case, dtype=torch.float32))
        self.zeros = zeros
        self.bias = nn.Parameter(torch.randn(case.n)) if bias else None

    def bytes_of(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Bytes, scale and zero point of each row."""
        rows = x.reshape(-1, x.shape[-1])
        low, high = rows.amin(1).clamp(max=0), rows.amax(1).clamp(min=0)
        if self.zeros:
            scale = (high - low) / 255
        else:
            scale = torch.maximum(-low, high) / 127
        scale = scale.clamp(min=torch.finfo(torch.float32).tiny).unsqueeze(1)
        zero = torch.zeros_like(scale)
        if self.zeros:
            zero = (-128 - (low.unsqueeze(1) / scale).round()).clamp(-128, 127)
        zero = zero.to(torch.int8)
        whole = ((rows / scale).round() + zero).clamp(-128, 127).to(torch.int8)
        return whole.reshape(x.shape), scale, zero

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        whole, scale, zero = self.bytes_of(x)
        rows = whole.reshape(-1, x.shape[-1]).float()
        if self.zeros:
            rows = rows - zero.float()
        rows = (rows * scale).reshape(x.shape)
        weight = self.weights.dequantized(torch.float32)
        return nn.functional.linear(rows, weight, self.bias)


def check(module: RoundedRows, x: torch.Tensor, found: torch.Tensor) -> None:
    """The error is that of sums in float32, whose products are exact."""
    whole, scale, zero = module.bytes_of(x)
    rows = whole.reshape(-1, x.shape[-1]).double()
    weight = module.weights.dequantized(torch.float64)
    expected = ((rows - zero.double()) @ weight.t()) * scale.double()
    # The products of rows and of their zero points may cancel, as may those of the
    # weight's integers and its own zero points.
    sizes = (rows.abs() + zero.double().abs()) @ (weight.abs() + 1).t() * scale
    if module.bias is not None:
        expected = expected + module.bias.double()
        sizes = sizes + module.bias.double().abs()
    wrong = (found.reshape(expected.shape).double() - expected).abs() > 2**-21 * sizes
    assert not wrong.any(), (module.weights.case, x.shape, wrong.nonzero()[:4])


def reads_bytes(folder: Path) -> bool:
    """Whether the kernel of the weight knows that it multiplies bytes."""
    text = "".join(path.read_text() for path in folder.rglob("*fuse.mlir"))
    return bool(
        re.search(r"quantized_weight = array<i64: \d, \d+, -?\d+, 2, 0, 1, 0>", text)
    )


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("shape", [(1, 256), (3, 7, 256), (50, 256)], ids=str)
def test_rows(bits, zeros, shape, tmp_path) -> None:
    module = RoundedRows(Case(131, 256, 64, bits, "int"), zeros, True).eval()
    x = torch.randn(shape)
    config = anabranch.Config(freeze=True, dump=str(tmp_path))
    with torch.no_grad():
        compiled = anabranch.compile(module, config=config, dynamic=False)
        check(module, x, compiled(x))
        # The largest and the smallest bytes, and a row of zeros.
        edges = x.sign() * 3
        edges.reshape(-1, 256)[0] = 0
        check(module, edges, compiled(edges))
    assert reads_bytes(tmp_path)
    assert anabranch.counters.fallback_calls == 0


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("bits", [4, 8])
def test_targets(target, bits, shared_folder) -> None:
    module = RoundedRows(Case(70, 320, 32, bits, "int"), True, False).eval()
    for rows in (1, 6, 40):
        x = torch.randn(rows, 320) + 1
        path = shared_folder / f"package{bits}-{rows}"
        with torch.no_grad():
            found = exported_for(target, module, (x,), path, TARGETS)(x)
        check(module, x, found)


def test_any_number_of_rows() -> None:
    module = RoundedRows(Case(96, 128, 32, 4, "center"), True, True).eval()
    compiled = anabranch.compile(module, freeze=True, dynamic=True)
    with torch.no_grad():
        for rows in (5, 1, 64, 33):
            x = torch.randn(rows, 128)
            check(module, x, compiled(x))


def test_a_weight_of_floats_and_bytes() -> None:
    """One weight multiplies rows of floats and rows of bytes: each has its own mark."""
    module = RoundedRows(Case(64, 128, 32, 4, "int"), True, False).eval()

    def both(x):
        weight = module.weights.dequantized(torch.float32)
        return module(x), nn.functional.linear(x, weight)

    x = torch.randn(4, 128)
    with torch.no_grad():
        bytes_, floats = anabranch.compile(both, freeze=True)(x)
        check(module, x, bytes_)
        weight = module.weights.dequantized(torch.float64)
        torch.testing.assert_close(
            floats.double(), x.double() @ weight.t(), rtol=1e-4, atol=1e-3
        )


@settings(
    max_examples=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@hypothesis.given(
    groups=st.integers(1, 6),
    group=st.sampled_from([16, 32, 48, 64, 128]),
    columns=st.integers(1, 150),
    rows=st.integers(1, 70),
    bits=st.sampled_from([4, 8]),
    weight_zeros=st.sampled_from(["none", "center", "int", "float", "added"]),
    zeros=st.booleans(),
    seed=st.integers(0, 99),
)
def test_any_rows(
    groups, group, columns, rows, bits, weight_zeros, zeros, seed
) -> None:
    torch.manual_seed(seed)
    case = Case(columns, groups * group, group, bits, weight_zeros)
    module = RoundedRows(case, zeros, bool(seed % 2)).eval()
    x = torch.randn(rows, case.k) * 10 ** (seed % 7 - 3) + seed % 3
    torch._dynamo.reset()
    with torch.no_grad():
        check(module, x, anabranch.compile(module, freeze=True)(x))


@pytest.mark.parametrize("bits", [4, 8])
def test_torchao(bits, tmp_path) -> None:
    torchao = pytest.importorskip("torchao.quantization")
    if bits == 4:
        kind = torchao.Int8DynamicActivationIntxWeightConfig(
            weight_dtype=torch.int4,
            weight_granularity=torchao.granularity.PerGroup(32),
        )
    else:
        kind = torchao.Int8DynamicActivationInt8WeightConfig()
    model = nn.Sequential(nn.Linear(128, 96), nn.ReLU(), nn.Linear(96, 64)).eval()
    torchao.quantize_(model, kind)
    x = torch.randn(40, 128)
    config = anabranch.Config(freeze=True, dump=str(tmp_path))
    with torch.no_grad():
        expected = model(x)
        found = anabranch.compile(model, config=config, dynamic=False)(x)
    # Sums in another order may round a few numbers of the second layer elsewhere.
    assert (found - expected).norm() < 0.01 * expected.norm()
    assert bits == 8 or reads_bytes(tmp_path)
    assert anabranch.counters.fallback_calls == 0
