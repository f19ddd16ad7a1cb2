"""Products of integers joined to GELU or to a sum, against float64."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import gelu

import torch_npu
from agreement import both
from torchair._impl.operators.quantisation.integers import unpack_int4

F16, BF16, F32, I32 = torch.float16, torch.bfloat16, torch.float32, torch.int32
NEAR = {F16: {"atol": 4e-3, "rtol": 2e-3}, BF16: {"atol": 3e-2, "rtol": 1e-2}}
M, K, N = 5, 16, 8


def int8(*shape) -> torch.Tensor:
    return torch.randint(-9, 9, shape, dtype=torch.int8)


def _eager(function, *arguments):
    return function(*arguments)


def packed(*shape) -> torch.Tensor:
    return torch.randint(-(2**31), 2**31 - 1, shape, dtype=torch.int32)


@pytest.mark.parametrize("approximate", ["gelu_erf", "gelu_tanh"])
@pytest.mark.parametrize("bias", [None, I32, F16, BF16, F32])
@pytest.mark.parametrize("scale", [F32, BF16])
def test_gelu(scale, bias, approximate) -> None:
    x1, x2 = int8(M, K), int8(K, N)
    rows, columns = torch.rand(M) / 9, (torch.rand(N) / 9).to(scale)
    plus = None if bias is None else (torch.randn(N) * 4).to(bias)
    wanted = x1.double() @ x2.double()
    if bias == I32:
        wanted = wanted + plus
    wanted = wanted * columns.double() * rows.double()[:, None]
    if plus is not None and bias != I32:
        wanted = wanted + plus.double()
    wanted = gelu(wanted, approximate="tanh" if "tanh" in approximate else "none")

    def function(x1, x2, rows, columns, plus):
        return torch_npu.npu_quant_matmul_gelu(
            x1, x2, rows, columns, bias=plus, approximate=approximate
        )

    run = both if bias in (None, I32) and approximate == "gelu_tanh" else _eager
    found = run(function, x1, x2, rows, columns, plus)
    assert found.dtype == (BF16 if BF16 in (scale, bias) else F16)
    torch.testing.assert_close(found.double(), wanted, **NEAR[found.dtype])


def test_gelu_of_int4_and_of_batches() -> None:
    rows, columns = torch.rand(M) / 99, torch.rand(1) / 99
    x1, x2 = packed(M, 2), packed(16, 1)
    wanted = unpack_int4(x1).double() @ unpack_int4(x2).double()
    wanted = gelu(wanted * columns.double() * rows.double()[:, None])
    found = both(torch_npu.npu_quant_matmul_gelu, x1, x2, rows, columns)
    torch.testing.assert_close(found.double(), wanted, **NEAR[F16])
    x1, x2, bias = int8(2, M, K), int8(2, K, N), torch.randn(2, 1, N)
    wanted = x1.double() @ x2.double() * columns.double() * rows.double()[:, None]
    found = torch_npu.npu_quant_matmul_gelu(x1, x2, rows, columns, bias=bias)
    torch.testing.assert_close(found.double(), gelu(wanted + bias), **NEAR[F16])


@pytest.mark.parametrize("blocks", [False, True])
def test_reduce_sum(blocks) -> None:
    x1, x2 = int8(3, M, K), int8(3, K, N)
    rows, columns = torch.rand(3, M) / 9, (torch.rand(N) / 9).to(BF16)
    products = x1.double() @ x2.double() * rows.double().unsqueeze(-1)
    wanted = (products * columns.double()).sum(0)

    def function(x1, x2, rows, columns):
        return torch_npu.npu_quant_matmul_reduce_sum(
            x1, x2, x1_scale=rows, x2_scale=columns
        )

    given = torch_npu.npu_format_cast(x2, 29) if blocks else x2
    found = both(function, x1, given, rows, columns)
    torch.testing.assert_close(found.double(), wanted, **NEAR[BF16])


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"x2": int8(K, N).to(I32)}, "x2 must be int8, got torch.int32"),
        ({"x2": int8(K + 1, N)}, "x1 of .* and x2 of .* don't fit"),
        ({"x1_scale": torch.rand(M + 1)}, r"x1_scale must have shape \(5,\)"),
        ({"x2_scale": torch.rand(2)}, r"x2_scale must have shape \(1,\) or \(8,\)"),
        ({"approximate": "gelu"}, "approximate must be one of"),
        ({"bias": torch.rand(N, dtype=torch.float64)}, "bias must be int32, float16"),
    ],
)
def test_wrong_gelu(change, text) -> None:
    right = {
        "x1": int8(M, K),
        "x2": int8(K, N),
        "x1_scale": torch.rand(M),
        "x2_scale": torch.rand(N),
    }
    with pytest.raises(RuntimeError, match=f"npu_quant_matmul_gelu: {text}"):
        torch_npu.npu_quant_matmul_gelu(**{**right, **change})


def test_wrong_reduce_sum() -> None:
    x1, x2, rows = int8(3, M, K), int8(3, K, N), torch.rand(3, M)
    call = torch_npu.npu_quant_matmul_reduce_sum
    with pytest.raises(RuntimeError, match="reduce_sum: x2_scale is needed"):
        call(x1, x2, x1_scale=rows)
    with pytest.raises(RuntimeError, match="x2_scale must be bfloat16"):
        call(x1, x2, x1_scale=rows, x2_scale=torch.rand(N))
    with pytest.raises(RuntimeError, match="x1 has a batch of 3, x2 of 2"):
        call(x1, x2[:2], x1_scale=rows, x2_scale=torch.rand(N).to(BF16))
