"""Means of images under the cells of boxes, a channel for each cell.

After Ascend's API reference of torch_npu, page npu_ps_roi_pooling, and the page of the
kernel that it calls."""

from __future__ import annotations

import torch
from torch import Tensor

from ..checks import FLOATS, check, check_dtype
from ..definition import npu_operator


def _cells(first: Tensor, last: Tensor, scale: float, cells: int, size: int) -> Tensor:
    """Which pixels of one dimension are in each cell of each box, (boxes, cells, size)."""
    start = first.round() * scale
    length = ((last.round() + 1) * scale - start).clamp(min=0.1)
    step = torch.arange(cells + 1, device=first.device)
    edge = start.unsqueeze(-1) + length.unsqueeze(-1) * (step / cells)
    pixel = torch.arange(size, device=first.device)
    begins, ends = edge[:, :-1].floor().unsqueeze(-1), edge[:, 1:].ceil().unsqueeze(-1)
    return (pixel >= begins) & (pixel < ends)


@npu_operator
def npu_ps_roi_pooling(
    self: Tensor, rois: Tensor, spatial_scale: float, group_size: int, output_dim: int
) -> Tensor:
    """The means of the pixels in the cells of boxes, where each cell has channels of its
    own: (n * boxes, output_dim, group_size, group_size) in self's dtype. Computed in f32.

    self        images (n, output_dim * group_size^2, h, w): for each result, the channels
                of its cells in rows
    rois        (n, 5, boxes): the number of the image, left, top, right, bottom, in pixels
                of an image that is 1 / spatial_scale times as large; they are rounded, and
                the last row and column count
    group_size  a box has so many rows and columns of cells, 1 to 127

    A cell without a pixel is 0, and so is a box of an image that is not there.
    RuntimeError: another shape or dtype, or a number out of its range.
    """
    name = "npu_ps_roi_pooling"
    check(0 < group_size < 128, name, f"group_size must be 1 to 127, got {group_size}")
    check(output_dim > 0, name, f"output_dim must be above 0, got {output_dim}")
    text = f"spatial_scale must be above 0, got {spatial_scale}"
    check(spatial_scale > 0, name, text)
    for what, given in (("self", self), ("rois", rois)):
        check_dtype(given, name, what, FLOATS)
    channels = output_dim * group_size**2
    right = self.dim() == 4 and self.shape[1] == channels
    text = f"self must be (n, {channels}, h, w), got {tuple(self.shape)}"
    check(right, name, text)
    right = rois.dim() == 3 and rois.shape[:2] == (self.shape[0], 5)
    text = f"rois must be ({self.shape[0]}, 5, boxes), got {tuple(rois.shape)}"
    check(right, name, text)
    boxes = rois.to(torch.float32).transpose(1, 2).flatten(0, 1)
    image, left, top, end, bottom = boxes.unbind(1)
    high, wide = self.shape[2:]
    rows = _cells(top, bottom, spatial_scale, group_size, high)
    columns = _cells(left, end, spatial_scale, group_size, wide)
    number = image.round()
    there = (number >= 0) & (number < self.shape[0])
    number = torch.where(there, number, 0.0).to(torch.int64)
    # (boxes, result, row, column, h, w)
    cells = (output_dim, group_size, group_size)
    found = self.to(torch.float32)[number].unflatten(1, cells)
    held = rows[:, None, :, None, :, None]
    sums = torch.where(held, found, 0.0).sum(-2)
    sums = torch.where(columns[:, None, None], sums, 0.0).sum(-1)
    count = rows.sum(-1).unsqueeze(-1) * columns.sum(-1).unsqueeze(-2)
    means = sums / count.clamp(min=1).unsqueeze(1)
    return torch.where(there[:, None, None, None], means, 0.0).to(self.dtype)
