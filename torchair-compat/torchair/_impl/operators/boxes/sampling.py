"""Values of images between their pixels: under boxes, and at places that move.

After Ascend's API reference of torch_npu, pages npu_roi_align and npu_deformable_conv2d, and
op-plugin's tests of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import torch
from torch import Tensor
from torch.nn import functional

from ..checks import FLOATS, check, check_dtype, check_shape
from ..definition import npu_operator

Numbers = Sequence[int]


def _pixels(image: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """The values of images (n, c, h, w) at whole places (n, points); 0 outside. (n, c,
    points)."""
    height, width = image.shape[-2:]
    inside = (rows >= 0) & (rows < height) & (columns >= 0) & (columns < width)
    place = (
        torch.where(inside, rows * width + columns, 0.0).to(torch.int64).unsqueeze(1)
    )
    flat = image.flatten(2)
    found = flat.gather(2, place.expand(-1, flat.shape[1], -1))
    return torch.where(inside.unsqueeze(1), found, 0.0)


def _between(image: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """The values of images (n, c, h, w) at places (n, points) between their pixels, by the
    four around each: (n, c, points)."""
    top, left = rows.floor(), columns.floor()
    down, across = (rows - top).unsqueeze(1), (columns - left).unsqueeze(1)
    upper = _pixels(image, top, left) * (1 - across)
    upper = upper + _pixels(image, top, left + 1) * across
    lower = _pixels(image, top + 1, left) * (1 - across)
    lower = lower + _pixels(image, top + 1, left + 1) * across
    return upper * (1 - down) + lower * down


def _samples(start: Tensor, size: Tensor, cells: int, number: int) -> Tensor:
    """The places (n, cells * number) at which boxes are read along one dimension."""
    steps = torch.arange(cells * number, device=start.device) + 0.5
    return start.unsqueeze(-1) + size.unsqueeze(-1) * (steps / (cells * number))


@npu_operator
def npu_roi_align(
    self: Tensor,
    rois: Tensor,
    spatial_scale: float,
    pooled_height: int,
    pooled_width: int,
    sample_num: int,
    roi_end_mode: int,
) -> Tensor:
    """The means of values between the pixels in each cell of each box, (boxes, c,
    pooled_height, pooled_width) in self's dtype. Computed in f32.

    self          images (n, c, h, w)
    rois          (boxes, 5): the number of the image, left, top, right, bottom, in pixels
                  of an image that is 1 / spatial_scale times as large
    sample_num    a cell is read at so many rows and columns; not 0
    roi_end_mode  0: a box has at least the size of a pixel; 1: right and bottom are of the
                  last pixel in the box

    Places more than a pixel outside of the image are 0, others outside are its border.

    RuntimeError: another shape or dtype, or a number out of its range.
    """
    name = "npu_roi_align"
    for what, given in (("self", self), ("rois", rois)):
        check_dtype(given, name, what, FLOATS)
    check(self.dim() == 4, name, f"self must be (n, c, h, w), got {tuple(self.shape)}")
    right = rois.dim() == 2 and rois.shape[1] == 5
    check(right, name, f"rois must be (boxes, 5), got {tuple(rois.shape)}")
    for what, number in (
        ("pooled_height", pooled_height),
        ("pooled_width", pooled_width),
        ("sample_num", sample_num),
    ):
        check(number > 0, name, f"{what} must be above 0, got {number}")
    known = roi_end_mode in (0, 1)
    check(known, name, f"roi_end_mode must be 0 or 1, got {roi_end_mode}")
    image, left, top, end, bottom = rois.to(torch.float32).unbind(1)
    read = []
    for first, last, cells, length in (
        (top, bottom, pooled_height, self.shape[2]),
        (left, end, pooled_width, self.shape[3]),
    ):
        start = first * spatial_scale
        size = (last + roi_end_mode) * spatial_scale - start
        size = size if roi_end_mode else size.clamp(min=1)
        along = _samples(start, size, cells, sample_num)
        outside = (along < -1) | (along > length)
        read.append((along.clamp(0, length - 1), outside))
    (rows, above), (columns, beside) = read
    grid = torch.broadcast_tensors(rows.unsqueeze(-1), columns.unsqueeze(-2))
    images = self.to(torch.float32)[image.to(torch.int64)]
    found = _between(images, *(places.flatten(1) for places in grid))
    hidden = (above.unsqueeze(-1) | beside.unsqueeze(-2)).flatten(1).unsqueeze(1)
    found = torch.where(hidden, 0.0, found)
    cells = found.unflatten(2, (pooled_height, sample_num, pooled_width, sample_num))
    return cells.mean((3, 5)).to(self.dtype)


@npu_operator
def npu_deformable_conv2d(
    input: Tensor,
    weight: Tensor,
    offset: Tensor,
    bias: Tensor | None,
    kernel_size: Annotated[Numbers, "int[2]"],
    stride: Numbers,
    padding: Numbers,
    dilation: Annotated[Numbers, "int[4]"] = (1, 1, 1, 1),
    groups: int = 1,
    deformable_groups: int = 1,
    modulated: bool = True,
) -> tuple[Tensor, Tensor]:
    """The convolution of images whose windows are read at places that move: f32 (n,
    out_channels, oh, ow), and the values of the windows (n, c, oh * kh, ow * kw).

    input              images (n, c, h, w)
    weight             (out_channels, c / groups, kh, kw)
    offset             (n, parts * deformable_groups * kh * kw, oh, ow): how far each place
                       moves to the right, then how far down, then, if modulated, the
                       factor of its value. Places outside of the image are 0
    bias               (out_channels,)
    kernel_size        (kh, kw)
    stride, dilation   four numbers; those of n and c are 1
    padding            top, bottom, left, right
    deformable_groups  so many groups of channels have places of their own

    RuntimeError: another shape or dtype, or numbers that the page forbids.
    """
    name = "npu_deformable_conv2d"
    parts = 3 if modulated else 2
    _check_windows(name, input, weight, offset, kernel_size, stride, padding, dilation)
    check(groups > 0, name, f"groups must be above 0, got {groups}")
    channels, (kh, kw) = input.shape[1], kernel_size
    _check_groups(name, "groups", groups, channels, weight.shape[0])
    _check_groups(name, "deformable_groups", deformable_groups, channels)
    check_shape(weight, name, "weight", (weight.shape[0], channels // groups, kh, kw))
    if bias is not None:
        check_dtype(bias, name, "bias", FLOATS)
        check_shape(bias, name, "bias", (weight.shape[0],))
    high = (
        input.shape[2] + padding[0] + padding[1] - (kh - 1) * dilation[2] - 1
    ) // stride[2] + 1
    wide = (
        input.shape[3] + padding[2] + padding[3] - (kw - 1) * dilation[3] - 1
    ) // stride[3] + 1
    wanted = (input.shape[0], parts * deformable_groups * kh * kw, high, wide)
    check_shape(offset, name, "offset", wanted)

    moved = offset.to(torch.float32).unflatten(1, (parts, deformable_groups, kh, kw))
    # (n, part, group, oh, kh, ow, kw)
    moved = moved.permute(0, 1, 2, 5, 3, 6, 4)
    rows = _window(high, kh, stride[2], dilation[2], padding[0], input)
    columns = _window(wide, kw, stride[3], dilation[3], padding[2], input)
    down = moved[:, 1] + rows[:, :, None, None]
    across = moved[:, 0] + columns
    images = input.to(torch.float32).unflatten(1, (deformable_groups, -1)).flatten(0, 1)
    places = [place.flatten(0, 1).flatten(1) for place in (down, across)]
    values = _between(images, *places)
    if modulated:
        values = values * moved[:, 2].flatten(0, 1).flatten(1).unsqueeze(1)
    values = values.view(input.shape[0], channels, high * kh, wide * kw)
    wide_weight = weight.to(torch.float32)
    addend = None if bias is None else bias.to(torch.float32)
    made = functional.conv2d(values, wide_weight, addend, (kh, kw), groups=groups)
    return made, values


def _window(
    length: int, kernel: int, stride: int, dilation: int, before: int, like: Tensor
) -> Tensor:
    """The places (length, kernel) of windows along one dimension, before they move."""
    first = torch.arange(length, device=like.device) * stride - before
    return first.unsqueeze(-1) + torch.arange(kernel, device=like.device) * dilation


def _check_windows(
    name: str,
    input: Tensor,
    weight: Tensor,
    offset: Tensor,
    kernel_size: Numbers,
    stride: Numbers,
    padding: Numbers,
    dilation: Numbers,
) -> None:
    for what, given in (("input", input), ("weight", weight), ("offset", offset)):
        check_dtype(given, name, what, FLOATS)
        check(
            given.dim() == 4, name, f"{what} must have 4 dimensions, got {given.dim()}"
        )
    lengths = ("stride", stride), ("padding", padding), ("dilation", dilation)
    for what, numbers in lengths:
        text = f"{what} must be 4 numbers, got {list(numbers)}"
        check(len(numbers) == 4, name, text)
    for what, numbers in (("stride", stride), ("dilation", dilation)):
        right = min(numbers) > 0 and list(numbers[:2]) == [1, 1]
        text = f"{what} must be above 0, and 1 for n and c, got {list(numbers)}"
        check(right, name, text)
    check(min(padding) >= 0, name, f"padding must not be below 0, got {list(padding)}")
    right = len(kernel_size) == 2 and min(kernel_size) > 0
    text = f"kernel_size must be two numbers above 0, got {list(kernel_size)}"
    check(right, name, text)
    area = kernel_size[0] * kernel_size[1]
    text = f"kernel_size must have at most 2048 places, got {area}"
    check(area <= 2048, name, text)


def _check_groups(name: str, what: str, groups: int, *numbers: int) -> None:
    right = groups > 0 and all(number % groups == 0 for number in numbers)
    text = f"{what} must divide the numbers of channels {numbers}, got {groups}"
    check(right, name, text)
