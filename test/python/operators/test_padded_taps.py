"""Depthwise convolutions and pools read padded images in place: windows, strides,
dilations and paddings in all combinations, on images as small as one point."""

from __future__ import annotations

import itertools

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
