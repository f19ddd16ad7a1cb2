"""Dynamo passes random numbers of Python's `random` to a compiled function as tensors."""

import random

import pytest
import torch

from anabranch import anabranch


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int32])
def test_random_numbers_are_those_of_eager(dtype, grad, dynamic) -> None:
    torch._dynamo.reset()

    def function(x):
        y = (x + 1) * random.uniform(0, 1) + random.random()
        return y * random.randint(2, 9)

    compiled = torch.compile(function, backend=anabranch, dynamic=dynamic)
    x = torch.arange(6).to(dtype)
    x.requires_grad_(grad and dtype.is_floating_point)
    for seed in range(3):
        random.seed(seed)
        expected = function(x)
        random.seed(seed)
        torch.testing.assert_close(compiled(x), expected)


def test_an_update_by_a_random_number() -> None:
    torch._dynamo.reset()

    def function(x):
        return x.mul_(random.uniform(1, 2))

    random.seed(1)
    expected = function(torch.ones(3))
    random.seed(1)
    compiled = torch.compile(function, backend=anabranch)
    torch.testing.assert_close(compiled(torch.ones(3)), expected)
