"""Products of f32 and f16 are as exact as eager's, and have its infinities and NaN.

AMX multiplies such floats as sums of bf16 where a processor has it.
"""

from __future__ import annotations

import copy
import math

import pytest
import torch
import torch.nn.functional as F
from checking import compiled, rand
from torch import nn

# A function of an input and of weights, and their shapes.
FORMS = {
    "linear": (F.linear, (300, 200), ((136, 200), (136,))),
    "addmm": (
        lambda x, w, b: torch.addmm(b, x, w),
        (130, 257),
        ((257, 150), (150,)),
    ),
    "bmm": (torch.bmm, (4, 128, 96), ((4, 96, 160),)),
    "conv2d": (
        lambda x, w, b: F.conv2d(x, w, b, stride=2, padding=1),
        (2, 64, 28, 28),
        ((72, 64, 3, 3), (72,)),
    ),
}


class Product(nn.Module):
    def __init__(self, form: str) -> None:
        super().__init__()
        self.function, _, shapes = FORMS[form]
        self.weights = nn.ParameterList(rand(*shape) for shape in shapes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(x, *self.weights)


def error(actual: torch.Tensor, exact: torch.Tensor) -> float:
    return (actual.double() - exact).square().mean().sqrt().item()


@pytest.mark.parametrize("freeze", (False, True), ids=("live", "frozen"))
@pytest.mark.parametrize("dtype", (torch.float32, torch.float16), ids=("f32", "f16"))
@pytest.mark.parametrize("form", FORMS)
@torch.no_grad()
def test_products_equal_eager(form: str, dtype: torch.dtype, freeze: bool) -> None:
    torch.manual_seed(len(form))
    model = Product(form).to(dtype)
    x = rand(*FORMS[form][1]).to(dtype)
    run = compiled(model, options={"freeze": freeze}, dynamic=False)

    exact = copy.deepcopy(model).double()(x.double())
    assert error(run(x), exact) <= 2 * error(model(x), exact)

    flat = x.view(-1)
    places = torch.randperm(flat.numel())[:6]
    largest = torch.finfo(dtype).max
    flat[places] = torch.tensor(
        [math.inf, -math.inf, math.nan, largest, -largest, math.inf]
    ).to(dtype)
    actual, expected = run(x), model(x)
    assert expected.isnan().any() and expected.isinf().any()
    tolerance = 1e-2 if dtype is torch.float16 else 1e-4
    torch.testing.assert_close(
        actual, expected, rtol=tolerance, atol=tolerance, equal_nan=True
    )
