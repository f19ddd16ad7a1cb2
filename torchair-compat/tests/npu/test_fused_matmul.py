"""npu_fused_matmul against float64."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

import torch_npu
from pictures import compiled

AFTER = {
    "": lambda y, z: y,
    "16cast32": lambda y, z: y,
    "relu": lambda y, z: y.relu(),
    "add": lambda y, z: y + z,
    "mul": lambda y, z: y * z,
    "gelu_erf": lambda y, z: functional.gelu(y),
    "gelu_tanh": lambda y, z: functional.gelu(y, approximate="tanh"),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("kind", AFTER)
def test_values(kind, dtype) -> None:
    x, w = torch.randn(2, 4, 16).to(dtype), torch.randn(16, 6).to(dtype)
    bias, other = torch.randn(6).to(dtype), torch.randn(2, 4, 6).to(dtype)

    def product(x, w, bias, other):
        x3 = other if kind in ("add", "mul") else None
        return torch_npu.npu_fused_matmul(x, w, bias=bias, x3=x3, fused_op_type=kind)

    wanted = AFTER[kind](x.double() @ w.double() + bias.double(), other.double())
    calls = [product]
    if dtype == torch.bfloat16:
        calls.append(compiled(product))
    for call in calls:
        found = call(x, w, bias, other)
        assert found.dtype == (torch.float32 if kind == "16cast32" else dtype)
        rough = found.dtype != torch.float32
        near = {"atol": 5e-2, "rtol": 1e-2} if rough else {"atol": 1e-4, "rtol": 1e-4}
        torch.testing.assert_close(found.double(), wanted, **near)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("kind", ["relu", "add", "mul", "gelu_erf", "gelu_tanh"])
def test_bits_of_two_operators(kind, dtype) -> None:
    """The product is rounded before the operator that follows it."""
    x, w = torch.randn(16, 48).to(dtype), torch.randn(48, 16).to(dtype)
    other = torch.randn(16, 16).to(dtype)
    x3 = other if kind in ("add", "mul") else None
    product = torch_npu.npu_fused_matmul(x, w)
    found = torch_npu.npu_fused_matmul(x, w, x3=x3, fused_op_type=kind)
    assert torch.equal(found, AFTER[kind](product.float(), other.float()).to(dtype))


def test_what_does_not_fit() -> None:
    x, w = torch.randn(2, 3), torch.randn(3, 4)
    for options, text in (
        ({"fused_op_type": "tanh"}, "fused_op_type must be one of"),
        ({"fused_op_type": "add"}, "'add' needs x3"),
        ({"x3": torch.ones(2, 4)}, "'' takes no x3"),
        ({"bias": torch.ones(3)}, "bias must have shape"),
    ):
        with pytest.raises(RuntimeError, match=f"npu_fused_matmul: {text}"):
            torch_npu.npu_fused_matmul(x, w, **options)
