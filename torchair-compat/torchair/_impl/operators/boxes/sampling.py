"""Values of images between their pixels: under boxes, and at places that move.

After Ascend's API reference of torch_npu, pages npu_roi_align and npu_deformable_conv2d,
op-plugin's tests of them, and the page of the kernel of aligned boxes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from ..checks import FLOATS, check, check_dtype, check_shape, inner_sizes
from ..definition import npu_operator

Numbers = Sequence[int]


class _Images(NamedTuple):
    """Images whose pixels are the rows (n * height * width, c) of a table."""

    pixels: Tensor
    height: int
    width: int


def _images(images: Tensor) -> _Images:
    """Images (n, c, h, w), in f32."""
    wide = images.to(torch.float32).movedim(1, -1)
    return _Images(wide.reshape(-1, images.shape[1]), *images.shape[2:])


def _at(images: _Images, number: Tensor, row: Tensor, column: Tensor) -> Tensor:
    """The values (n, points, c) of pixels (n, points) of images (n, 1); 0 outside."""
    inside = (row >= 0) & (row < images.height)
    inside = inside & (column >= 0) & (column < images.width)
    down = torch.where(inside, row, 0.0).to(torch.int64)
    across = torch.where(inside, column, 0.0).to(torch.int64)
    place = (number * images.height + down) * images.width + across
    found = images.pixels[torch.where(inside, place, 0)]
    return torch.where(inside.unsqueeze(-1), found, 0.0)


def _between(images: _Images, number: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """The values (n, points, c) at places (n, points) between the pixels of images (n, 1),
    by the four around each."""
    top, left = rows.floor(), columns.floor()
    down, across = (rows - top).unsqueeze(-1), (columns - left).unsqueeze(-1)
    upper = _at(images, number, top, left) * (1 - across)
    upper = upper + _at(images, number, top, left + 1) * across
    lower = _at(images, number, top + 1, left) * (1 - across)
    lower = lower + _at(images, number, top + 1, left + 1) * across
    return upper * (1 - down) + lower * down


class _Samples(NamedTuple):
    """Where boxes are read along one dimension of an image."""

    places: Tensor  # (boxes, cells, most)
    held: Tensor  # (boxes, cells, most): which places are in the image, and are read
    count: Tensor  # (boxes,): how many places a cell has


def _samples(
    start: Tensor, size: Tensor, cells: int, number: int, length: int
) -> _Samples:
    """`number` places for each cell, or one for each pixel that a cell of the box is
    long."""
    wanted = torch.full_like(size, number) if number else (size / cells).ceil()
    count = wanted.clamp(min=0).to(torch.int64)
    with inner_sizes(count):
        most = number or torch.cat([count, count.new_ones(1)]).max().item()
    step = torch.arange(most, device=start.device)
    whole = count.clamp(min=1)[:, None, None]
    part = torch.arange(cells, device=start.device).unsqueeze(-1) + (step + 0.5) / whole
    places = start[:, None, None] + size[:, None, None] * (part / cells)
    held = (step < whole) & (count > 0)[:, None, None]
    held = held & (places >= -1) & (places <= length)
    return _Samples(places.clamp(0, length - 1), held, count)


def _side(
    first: Tensor, last: Tensor, scale: float, mode: int
) -> tuple[Tensor, Tensor]:
    """Where boxes begin in the image along one dimension, and how long they are there."""
    shift = 0.5 if mode > 1 else 0.0
    start = first * scale - shift
    size = (last + (1 if mode == 1 else 0)) * scale - shift - start
    return start, size if mode == 2 else size.clamp(min=1)


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
    sample_num    a cell is read at so many rows and columns; 0: at one for each pixel that
                  it is long
    roi_end_mode  0: coordinates are as they are; 1: right and bottom are of the last pixel
                  in the box; 2 and 3: coordinates are half a pixel less. A box has at
                  least the size of a pixel unless the mode is 2

    Places more than a pixel outside of the image are 0, others outside are its border.

    RuntimeError: another shape or dtype, or a number out of its range.
    """
    name = "npu_roi_align"
    for what, given in (("self", self), ("rois", rois)):
        check_dtype(given, name, what, FLOATS)
    check(self.dim() == 4, name, f"self must be (n, c, h, w), got {tuple(self.shape)}")
    right = rois.dim() == 2 and rois.shape[1] == 5
    check(right, name, f"rois must be (boxes, 5), got {tuple(rois.shape)}")
    for what, number, least in (
        ("pooled_height", pooled_height, 1),
        ("pooled_width", pooled_width, 1),
        ("sample_num", sample_num, 0),
    ):
        check(number >= least, name, f"{what} must be at least {least}, got {number}")
    known = roi_end_mode in (0, 1, 2, 3)
    check(known, name, f"roi_end_mode must be 0, 1, 2 or 3, got {roi_end_mode}")
    image, left, top, end, bottom = rois.to(torch.float32).unbind(1)
    rows, columns = (
        _samples(
            *_side(first, last, spatial_scale, roi_end_mode), cells, sample_num, length
        )
        for first, last, cells, length in (
            (top, bottom, pooled_height, self.shape[2]),
            (left, end, pooled_width, self.shape[3]),
        )
    )
    down, across = rows.places.flatten(1), columns.places.flatten(1)
    grid = torch.broadcast_tensors(down.unsqueeze(-1), across.unsqueeze(-2))
    number = image.to(torch.int64).unsqueeze(-1)
    found = _between(_images(self), number, *(places.flatten(1) for places in grid))
    held = rows.held.flatten(1).unsqueeze(-1) & columns.held.flatten(1).unsqueeze(-2)
    found = torch.where(held.flatten(1).unsqueeze(-1), found, 0.0)
    shape = (*rows.places.shape[1:], *columns.places.shape[1:])
    sums = found.unflatten(1, shape).sum((2, 4))
    count = (rows.count * columns.count).clamp(min=1)
    means = (sums / count[:, None, None, None]).movedim(-1, 1)
    return means.to(self.dtype).contiguous()


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
    groups_of = input.unflatten(1, (deformable_groups, -1)).flatten(0, 1)
    places = [place.flatten(0, 1).flatten(1) for place in (down, across)]
    number = torch.arange(groups_of.shape[0], device=input.device).unsqueeze(-1)
    values = _between(_images(groups_of), number, *places).mT.contiguous()
    if modulated:
        values = values * moved[:, 2].flatten(0, 1).flatten(1).unsqueeze(1)
    values = values.reshape(input.shape[0], channels, high * kh, wide * kw)
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
