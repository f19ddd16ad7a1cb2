"""Tensors and modules that few models use: each equals eager PyTorch."""

from __future__ import annotations

import pytest
import torch
from checking import assert_equal, check, compiled
from torch import nn
from torch.nn.utils.parametrizations import weight_norm

CLOSE = {"atol": 1e-5, "rtol": 1e-5}


def test_nested_tensors():
    linear = nn.Linear(8, 5)

    def function(x):
        return torch.relu(linear(x)) * 2

    parts = [torch.randn(n, 8) for n in (3, 1, 6)]
    given = torch.nested.nested_tensor(parts, layout=torch.jagged)
    with torch.no_grad():
        got, wanted = compiled(function)(given), function(given)
    for left, right in zip(got.unbind(), wanted.unbind(), strict=True):
        torch.testing.assert_close(left, right)


@pytest.mark.parametrize("dynamic", [False, True])
def test_vmap(dynamic):
    def function(x, w):
        rows = torch.vmap(lambda row: torch.softmax(w @ row, 0) + row.sum())(x)
        pairs = torch.vmap(torch.vmap(torch.dot, (None, 0)), (0, None))(x, w)
        return rows, pairs

    check(function, torch.randn(6, 4), torch.randn(5, 4), dynamic=dynamic)


def test_weight_norm():
    model = nn.Sequential(weight_norm(nn.Linear(6, 4)), weight_norm(nn.Conv1d(3, 2, 2)))
    check(model.eval(), torch.randn(2, 3, 6), tolerance=CLOSE)


def test_channels_last_3d():
    model = nn.Sequential(nn.Conv3d(3, 8, 3, padding=1), nn.ReLU(), nn.MaxPool3d(2))
    model = model.eval().to(memory_format=torch.channels_last_3d)
    x = torch.randn(2, 3, 4, 6, 6).to(memory_format=torch.channels_last_3d)
    check(model, x, strides=False, tolerance={"atol": 1e-4, "rtol": 1e-4})


def test_batch_norm_without_momentum():
    """The running statistics are the mean over all batches."""
    model = nn.BatchNorm1d(5, momentum=None)
    check(model, torch.randn(7, 5), calls=3, tolerance=CLOSE)
    check(model.eval(), torch.randn(3, 5), tolerance=CLOSE)


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2])
def test_casts_of_float8(dtype):
    def function(x):
        return x.to(dtype), x.to(dtype).float() * 2, x.to(dtype).to(torch.bfloat16)

    numbers = [0.0, -0.0, 1e-4, 0.3, -17.0, 448.0, 1e6, float("nan")]
    given = torch.cat([torch.tensor(numbers), torch.randn(57) * 10])
    with torch.no_grad():
        got, wanted = compiled(function)(given), function(given)
    assert got[0].dtype is dtype
    assert_equal([r.float() for r in got], [r.float() for r in wanted])


@pytest.mark.parametrize("dtype", [torch.uint16, torch.uint32])
def test_wide_unsigned_integers(dtype):
    def function(x):
        wide = x.to(torch.int64)
        return x, wide + 1, (wide * 3 // 2).to(dtype), x.to(torch.float32), x[1:]

    largest = torch.iinfo(dtype).max
    given = torch.tensor([0, 1, 7, largest // 2 + 1, largest], dtype=torch.int64)
    check(function, given.to(dtype))
