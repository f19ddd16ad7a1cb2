"""Results whose few innermost elements come from planes far apart equal eager's.

Such results are images with their channels last, pairs of `stack`, and pixels that
`pixel_shuffle` spreads. Kernels write several planes together, as whole vectors."""

import pytest
import torch
from checking import check
from torch.nn import functional

# Around the vectors of f32 and of bytes, with and without a rest.
WIDTHS = (15, 16, 17, 33, 56, 64, 65)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int8])
@pytest.mark.parametrize("channels", [2, 3, 4, 5])
def test_channels_last(channels: int, dtype: torch.dtype):
    images = [(torch.randn(channels, 3, w) * 50).to(dtype) for w in WIDTHS]

    def moved(images):
        last = [image.permute(1, 2, 0) for image in images]
        return [(image + 1).contiguous() for image in last] + [
            functional.pad(image, (0, 0, 1, 1, 2, 0)) for image in last
        ]

    check(moved, images)


@pytest.mark.parametrize("count", [2, 3, 4])
def test_stacks(count: int):
    def stacked(*rows):
        planes = [[row.sin(), row.cos(), row * 2, row + 1][:count] for row in rows]
        return [torch.stack(parts, -1).flatten(-2) for parts in planes]

    check(stacked, *(torch.randn(2, w) for w in WIDTHS))


def test_products_with_channels():
    def scaled(x, y):
        outer = x[..., None] * y
        return outer.contiguous(), outer[:, 1:-1].contiguous()

    for channels in (2, 3, 4):
        check(scaled, torch.randn(5, 40), torch.randn(channels))


@pytest.mark.parametrize("factor", [2, 3])
def test_pixel_shuffle(factor: int):
    def shuffled(x):
        return functional.pixel_shuffle(x.relu(), factor)

    check(shuffled, torch.randn(2, 2 * factor**2, 5, 32))
