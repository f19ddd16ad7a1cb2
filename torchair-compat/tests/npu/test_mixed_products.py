"""Products of operands of different dtypes: the result has the dtype of the first, and the
value of float64, rounded once."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

import torch_npu
from pictures import compiled

bf16, f16, f32, i8 = torch.bfloat16, torch.float16, torch.float32, torch.int8
FORMS = {
    "operator": lambda x, w: x @ w,
    "torch.matmul": torch.matmul,
    "matmul": lambda x, w: x.matmul(other=w),
    "torch.mm": lambda x, w: torch.mm(input=x, mat2=w),
    "mm": lambda x, w: x.mm(w),
    "torch.bmm": lambda x, w: torch.bmm(x[None], w[None])[0],
    "bmm": lambda x, w: x[None].bmm(w[None])[0],
    "linear": lambda x, w: functional.linear(x, w.t()),
}


def random(shape, dtype):
    return (
        torch.randint(-7, 7, shape).to(dtype)
        if dtype == i8
        else torch.randn(*shape).to(dtype)
    )


@pytest.mark.parametrize(
    "left, right",
    [
        (bf16, f32),
        (f32, bf16),
        (f16, f32),
        (f32, f16),
        (bf16, f16),
        (bf16, i8),
        (f32, i8),
    ],
)
@pytest.mark.parametrize("form", FORMS)
def test_products(form, left, right) -> None:
    x, w = random((4, 8), left), random((8, 3), right)
    wanted = (x.double() @ w.double()).to(left)
    for run in (FORMS[form], compiled(FORMS[form])):
        close = {"atol": 1e-5, "rtol": max(1e-5, 2 * torch.finfo(left).eps)}
        torch.testing.assert_close(run(x, w), wanted, **close)


@pytest.mark.parametrize("left, right, bias", [(f32, bf16, bf16), (bf16, f32, f32)])
def test_layers(left, right, bias) -> None:
    layer = torch.nn.Linear(8, 3).to(right)
    layer.bias.data = layer.bias.data.to(bias)
    x = torch.randn(4, 8).to(left)
    wanted = (x.double() @ layer.weight.double().t() + layer.bias.double()).to(left)
    with torch.no_grad():
        for run in (layer, compiled(layer)):
            close = {"atol": 1e-5, "rtol": max(1e-5, 2 * torch.finfo(left).eps)}
            torch.testing.assert_close(run(x), wanted, **close)


def test_what_stays_as_it_is() -> None:
    """Integers first, and autocast, which converts both operands itself."""
    x, w = torch.randn(4, 8), torch.randn(8, 3).to(bf16)
    with pytest.raises(RuntimeError, match="dtype"):
        x.to(i8) @ w
    with torch.autocast("npu", bf16):
        assert functional.linear(x, w.t()).dtype == bf16
    assert torch.jit.script(scripted)(x, x.t()).dtype == f32


def scripted(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return torch.matmul(x, w)


@pytest.mark.parametrize("shape", [(16,), (16, 1), (1, 16)])
def test_scales_of_a_gate(shape) -> None:
    """One scale for each column, in each of its shapes."""
    x = torch.randint(-99, 99, (4, 16), dtype=torch.int32)
    scale = torch.rand(16)

    def function(x, scale):
        return torch_npu.npu_dequant_swiglu_quant(x, weight_scale=scale, quant_mode=1)

    wide = x.double() * scale.double()
    gated = functional.silu(wide[:, 8:]) * wide[:, :8]
    for run in (function, compiled(function)):
        made, rows = run(x, scale.reshape(shape))
        torch.testing.assert_close(rows.double(), gated.abs().amax(-1) / 127)
        close = {"atol": 0.51, "rtol": 0.0}
        torch.testing.assert_close(
            made.double(), gated / rows.double().unsqueeze(-1), **close
        )
