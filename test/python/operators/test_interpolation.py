"""Interpolation beside infinities has infinities and NaN where eager PyTorch has them:
a weight of zero times an infinity is NaN, a tiny weight's product is not."""

import random

import pytest
import torch
from torch.nn.functional import interpolate

from anabranch.backend import anabranch as backend

DIMS = {"linear": 1, "bilinear": 2, "trilinear": 3, "bicubic": 2}
DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
SIZES = (1, 2, 3, 4, 5, 7)


def settings(rng, mode, sizes):
    """Arguments of `interpolate`."""
    how = {"mode": mode, "align_corners": rng.random() < 0.4}
    if rng.random() < 0.5:
        return how | {"size": [rng.choice([1, 2, s, 2 * s, 9]) for s in sizes]}
    return how | {
        "scale_factor": [rng.choice([1.0, 2.0, 0.5, 1.7, 3.0]) for _ in sizes]
    }


def with_infinities(rng, mode):
    sizes = [rng.choice(SIZES) for _ in range(DIMS[mode])]
    x = torch.randn(2, rng.choice([1, 2, 5]), *sizes)
    x[torch.rand(x.shape) < 0.15] = torch.inf
    x[torch.rand(x.shape) < 0.05] = -torch.inf
    if DIMS[mode] == 2 and rng.random() < 0.3:
        x = x.contiguous(memory_format=torch.channels_last)
    # PyTorch's own decomposition of bicubic rounds float64 twice where eager rounds once.
    dtype = rng.choice([d for d in DTYPES if mode != "bicubic" or d != torch.float64])
    return x.to(dtype), sizes


def compare(result, expected):
    if expected.shape[-1] > 1:
        assert result.stride() == expected.stride()
    tolerance = 1e-4 if result.dtype.itemsize > 2 else 2e-2
    torch.testing.assert_close(
        result, expected, rtol=tolerance, atol=tolerance, equal_nan=True
    )


@pytest.mark.parametrize("mode", DIMS)
def test_infinities(mode):
    rng = random.Random(mode)
    torch.manual_seed(3)
    cases = 0
    while cases < 4:
        x, sizes = with_infinities(rng, mode)
        how = settings(rng, mode, sizes)
        try:
            expected = interpolate(x, **how)
        except RuntimeError:  # no element would be left
            continue
        torch._dynamo.reset()
        compiled = torch.compile(interpolate, backend=backend, dynamic=False)
        compare(compiled(x, **how), expected)
        cases += 1


@pytest.mark.parametrize("how", [{"scale_factor": 3.0}, {"size": (6, 5)}])
def test_infinities_of_symbolic_images(how):
    torch._dynamo.reset()
    compiled = torch.compile(interpolate, backend=backend, dynamic=True)
    for rows, columns in ((4, 5), (6, 7), (3, 3)):
        x = torch.randn(2, 3, rows, columns)
        x[:, :, 1, 1:3] = torch.inf
        compare(
            compiled(x, mode="bilinear", **how), interpolate(x, mode="bilinear", **how)
        )


def test_gradients():
    x = torch.randn(2, 3, 4, 5, requires_grad=True)
    torch._dynamo.reset()
    compiled = torch.compile(interpolate, backend=backend, dynamic=False)
    found = []
    for function in (interpolate, compiled):
        result = function(x, scale_factor=(2.0, 1.7), mode="bilinear")
        found.append((result, *torch.autograd.grad(result.square().sum(), x)))
    torch.testing.assert_close(found[1], found[0])


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_images_of_integers(layout, dynamic):
    torch._dynamo.reset()
    compiled = torch.compile(interpolate, backend=backend, dynamic=dynamic)
    x = torch.randint(0, 256, (2, 3, 9, 7), dtype=torch.uint8)
    x = x.contiguous(memory_format=layout)
    for how in ({"scale_factor": 1.7}, {"size": (4, 15), "align_corners": True}):
        how = how | {"mode": "bilinear"}
        expected = interpolate(x, **how)
        result = compiled(x, **how)
        assert torch.equal(result, expected)
        assert result.stride() == expected.stride()
