"""Tensors of hifloat8: every operator computes with the nearest numbers of the format."""

from __future__ import annotations

import pickle

import pytest
import torch

import torch_npu
from small_numbers import hifloat8_values

VALUES = torch.tensor([0.0, 1.0, -1.25, 3.3, 100.0, -(2.0**-20), 1e9])


def nearest(x: torch.Tensor) -> torch.Tensor:
    """The nearest of the format's numbers, by their list. Halves go away from zero, as the
    larger of two numbers."""
    grid = torch.from_numpy(hifloat8_values())
    order = grid.argsort(descending=True)
    finite = order[grid[order].isfinite()]
    distance = (x.double().abs().unsqueeze(-1) - grid[finite]).abs()
    found = grid[finite][distance.argmin(-1)]
    found = torch.where(x.abs() >= 1.25 * 2**15, torch.inf, found)
    return torch.where(x < 0, -found, found)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_rounds_to_the_format(dtype) -> None:
    x = torch.cat([VALUES[:-1].to(dtype), torch.randn(300).to(dtype) * 9])
    made = torch_npu.HiFloat8Tensor.to_hifloat8(x)
    assert made.dtype == dtype and made._data.dtype == torch.uint8
    torch.testing.assert_close(made.float().double(), nearest(x), rtol=0, atol=0)
    assert made.from_hifloat8().dtype == dtype
    assert made.half().dtype == torch.float16
    assert made.bfloat16().dtype == torch.bfloat16
    assert torch_npu.HiFloat8Tensor.to_hifloat8(VALUES)[-1].float().isinf()


def test_integers_are_floats() -> None:
    made = torch_npu.HiFloat8Tensor.to_hifloat8(torch.arange(-4, 5, dtype=torch.int8))
    assert made.dtype == torch.float32
    assert torch.equal(made.float(), torch.arange(-4.0, 5.0))


def test_moves_keep_the_bytes() -> None:
    made = torch_npu.HiFloat8Tensor.to_hifloat8(torch.randn(4, 6))
    for moved in (made.t(), made[1:], made.view(2, 12), made.clone(), made.bfloat16):
        if callable(moved):
            continue
        assert type(moved) is torch_npu.HiFloat8Tensor
    assert torch.equal(made.t()._data, made._data.t())
    half = made.to(torch.float16)
    assert half.dtype == torch.float16 and torch.equal(half._data, made._data)
    again = pickle.loads(pickle.dumps(made))
    assert torch.equal(again._data, made._data) and again.dtype == made.dtype
    assert "HiFloat8Tensor" in repr(made)


def test_operators_take_the_values() -> None:
    a, b = torch.randn(4, 6), torch.randn(6, 3)
    left, right = (torch_npu.HiFloat8Tensor.to_hifloat8(t) for t in (a, b))
    wanted = nearest(a) @ nearest(b)
    for made in (left @ right, torch.mm(left, b.copy_(right.float()))):
        assert type(made) is torch.Tensor
        torch.testing.assert_close(made.double(), wanted, rtol=1e-5, atol=1e-5)


def test_writes_are_rounded() -> None:
    made = torch_npu.HiFloat8Tensor.to_hifloat8(torch.randn(5))
    x = torch.randn(5)
    assert made.copy_(x) is made
    torch.testing.assert_close(made.float().double(), nearest(x), rtol=0, atol=0)
    assert made.add_(1) is made
    wanted = nearest(nearest(x).float() + 1)
    torch.testing.assert_close(made.float().double(), wanted, rtol=0, atol=0)


def test_bytes_are_needed() -> None:
    with pytest.raises(ValueError, match="must be uint8, got torch.float32"):
        torch_npu.HiFloat8Tensor(data=torch.randn(2))
