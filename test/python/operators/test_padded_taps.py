"""Depthwise convolutions and pools read padded images in place: windows, strides,
dilations and paddings in all combinations, on images as small as one point."""

from __future__ import annotations

import functools
import itertools
import math
import random
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import anabranch


class Depthwise(nn.Module):
    """A depthwise convolution between two that keep channels last."""

    def __init__(self, window: int, **options) -> None:
        super().__init__()
        self.ahead = nn.Conv2d(8, 32, 1)
        self.taps = nn.Conv2d(32, 32, window, groups=32, **options)
        self.after = nn.Conv2d(32, 8, 1)

    def forward(self, x: Tensor) -> Tensor:
        y = functional.relu6(self.taps(torch.relu(self.ahead(x))))
        return self.after(y)


def frozen(model: nn.Module, x: Tensor) -> Tensor:
    torch._dynamo.reset()
    return anabranch.compile(model, freeze=True, fullgraph=True)(x)


WINDOWS = [
    (window, stride, dilation, padding)
    for window, stride, dilation in itertools.product((1, 2, 3, 5), (1, 2, 3), (1, 2))
    for padding in {1, (window - 1) * dilation // 2, (window - 1) * dilation}
]


SIZES = [(1, 1), (2, 3), (5, 4), (9, 16)]


@pytest.mark.parametrize("size", SIZES)
def test_depthwise_convolutions(size: tuple[int, int]) -> None:
    """Each size has its share of the windows."""
    for window, stride, dilation, padding in WINDOWS[SIZES.index(size) :: len(SIZES)]:
        extent = (window - 1) * dilation + 1
        if min(size) + 2 * padding < extent:
            continue
        torch.manual_seed(window)
        model = Depthwise(window, stride=stride, dilation=dilation, padding=padding)
        x = torch.randn(2, 8, *size)
        with torch.no_grad():
            exact = model.double()(x.double())
            result = frozen(model.float(), x)
        torch.testing.assert_close(result.double(), exact, rtol=1e-4, atol=1e-4)


class Pooled(nn.Module):
    """Two pools of an image whose channels are last, side by side, padded unevenly."""

    def __init__(self, padding: tuple[int, ...], value: float) -> None:
        super().__init__()
        self.ahead = nn.Conv2d(8, 32, 1)
        self.padding, self.value = padding, value

    def forward(self, x: Tensor) -> Tensor:
        y = functional.pad(self.ahead(x), self.padding, value=self.value)
        high = functional.max_pool2d(y, 3, 2, 1)
        return torch.cat([high, functional.avg_pool2d(y, 3, 2, 1)], 1)


@pytest.mark.parametrize("padding", [(0, 0, 0, 0), (0, 1, 0, 1), (2, 0, 1, 3)])
@pytest.mark.parametrize("size", [(2, 2), (7, 6)])
def test_pools(size: tuple[int, int], padding: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    model, x = Pooled(padding, 0.25), torch.randn(1, 8, *size)
    with torch.no_grad():
        exact = model.double()(x.double())
        result = frozen(model.float(), x)
    torch.testing.assert_close(result.double(), exact, rtol=1e-5, atol=1e-5)


def test_several_results_share_what_they_read() -> None:
    """The convolution is a result too, and its pieces are those of the others."""

    class Several(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.taps = nn.Conv2d(32, 32, 3, padding=1, groups=32)

        def forward(self, x: Tensor) -> tuple[Tensor, ...]:
            y = self.taps(x.relu())
            return y, y.sigmoid(), y + x

    torch.manual_seed(0)
    model = Several()
    x = torch.randn(1, 32, 6, 7).to(memory_format=torch.channels_last)
    with torch.no_grad():
        exact = model.double()(x.double())
        results = frozen(model.float(), x)
    for result, wanted in zip(results, exact):
        torch.testing.assert_close(result.double(), wanted, rtol=1e-5, atol=1e-5)


def random_mean(draw: random.Random) -> tuple[Any, Tensor]:
    """A mean of windows, some of which reach into padding or beyond it, and an image."""
    dims = draw.choice((1, 2, 2, 3))
    window = [draw.randint(1, 4) for _ in range(dims)]
    options = {
        "stride": [draw.randint(1, 3) for _ in range(dims)],
        "padding": [draw.randint(0, points // 2) for points in window],
        "ceil_mode": draw.random() < 0.6,
        "count_include_pad": draw.random() < 0.4,
    }
    if dims > 1 and draw.random() < 0.2:
        options["divisor_override"] = 5
    sizes = [points + draw.randint(0, 6) for points in window]
    mean = getattr(functional, f"avg_pool{dims}d")
    return functools.partial(mean, kernel_size=window, **options), torch.randn(
        2, 3, *sizes
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("seed", range(4))
def test_means_of_windows_in_and_beyond_padding(seed: int, dtype: torch.dtype) -> None:
    draw = random.Random(seed)
    means = [random_mean(draw) for _ in range(12)]

    def all_means(*images):
        return [mean(image) for (mean, _), image in zip(means, images)]

    images = [
        image.to(torch.float32 if image.dim() == 5 and dtype.itemsize == 2 else dtype)
        for _, image in means
    ]
    torch._dynamo.reset()
    found = anabranch.compile(all_means, dynamic=False)(*images)
    torch.testing.assert_close(found, all_means(*images))
    assert anabranch.counters.fallback_calls == 0


def random_maximum(draw: random.Random) -> tuple[Any, Tensor]:
    """Maxima of windows of up to 13 points a side, and an image with infinities and
    NaN."""
    dims = draw.choice((1, 2, 2, 3))
    window = [draw.choice((1, 2, 3, 5, 13 if dims < 3 else 4)) for _ in range(dims)]
    options = {
        "stride": [draw.randint(1, 3) for _ in range(dims)],
        "padding": [draw.randint(0, points // 2) for points in window],
        "dilation": [draw.randint(1, 2) for _ in range(dims)],
        "ceil_mode": draw.random() < 0.4,
    }
    extents = [(n - 1) * d + 1 for n, d in zip(window, options["dilation"])]
    image = torch.randn(2, 2, *(n + draw.randint(0, 5) for n in extents))
    for value in (-math.inf, -math.inf, math.nan):
        image.view(-1)[draw.randrange(image.numel())] = value
    maximum = getattr(functional, f"max_pool{dims}d")
    return functools.partial(maximum, kernel_size=window, **options), image


@pytest.mark.parametrize("seed", range(4))
def test_maxima_of_windows(seed: int) -> None:
    draw = random.Random(seed)
    maxima = [random_maximum(draw) for _ in range(12)]

    def all_maxima(*images):
        return [maximum(image) for (maximum, _), image in zip(maxima, images)]

    images = [image for _, image in maxima]
    torch._dynamo.reset()
    found = anabranch.compile(all_maxima, dynamic=False)(*images)
    torch.testing.assert_close(
        found, all_maxima(*images), rtol=0, atol=0, equal_nan=True
    )
    assert anabranch.counters.fallback_calls == 0


@pytest.mark.parametrize("ceil_mode", [False, True])
def test_pools_of_symbolic_images(ceil_mode: bool) -> None:
    """How many points a window has, and how far windows reach, depends on the image's
    size."""

    def pools(x):
        return (
            functional.avg_pool2d(x, 3, 2, 1, ceil_mode, count_include_pad=False),
            functional.avg_pool2d(x, (2, 3), (3, 2), ceil_mode=ceil_mode),
            functional.max_pool2d(x, 2, 2, ceil_mode=ceil_mode),
            functional.max_pool2d(x, 3, (1, 4), 1, ceil_mode=ceil_mode),
            functional.max_pool2d(x, 2, 3, ceil_mode=ceil_mode, return_indices=True),
        )

    compiled = anabranch.compile(pools, dynamic=True)
    for size in ((5, 6), (8, 8), (4, 9), (7, 7), (6, 13)):
        x = torch.randn(2, 3, *size)
        torch.testing.assert_close(compiled(x), pools(x))
    assert anabranch.counters.fallback_calls == 0
