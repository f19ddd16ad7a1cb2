"""Anchors of a grid: their differences to boxes, and those that are responsible for one.

After Ascend's API reference of torch_npu, pages npu_yolo_boxes_encode and
npu_anchor_response_flags, and op-plugin's tests of them."""

from __future__ import annotations

from typing import Annotated

import torch
from torch import Tensor

from ..checks import check, check_dtype, check_shape
from ..definition import npu_operator

_DTYPES = (torch.float16, torch.float32)
_LEAST = 1e-6
_MOST_ANCHORS = 20480


def _check_boxes(name: str, what: str, boxes: Tensor) -> None:
    check_dtype(boxes, name, what, _DTYPES)
    right = boxes.dim() == 2 and boxes.shape[1] == 4
    check(right, name, f"{what} must be (n, 4), got {tuple(boxes.shape)}")


@npu_operator
def npu_yolo_boxes_encode(
    self: Tensor, gt_bboxes: Tensor, stride: Tensor, performance_mode: bool = False
) -> Tensor:
    """The differences (n, 4) of boxes to their anchors: of the centres, over the stride,
    from 0 to 1 where an anchor's cell ends, and the logarithm of the quotient of sizes; in
    self's dtype. Computed in f32.

    self, gt_bboxes   (n, 4): left, top, right, bottom; at most 20480
    stride            (n,), int32: the size of a cell
    performance_mode  has no effect

    RuntimeError: another shape or dtype, or more anchors.
    """
    name = "npu_yolo_boxes_encode"
    _check_boxes(name, "self", self)
    _check_boxes(name, "gt_bboxes", gt_bboxes)
    check_shape(gt_bboxes, name, "gt_bboxes", tuple(self.shape))
    count = self.shape[0]
    text = f"self must have at most {_MOST_ANCHORS} anchors, got {count}"
    check(count <= _MOST_ANCHORS, name, text)
    check_dtype(stride, name, "stride", (torch.int32,))
    check_shape(stride, name, "stride", (count,))
    anchor, box = self.to(torch.float32), gt_bboxes.to(torch.float32)
    apart = (box[:, :2] + box[:, 2:] - anchor[:, :2] - anchor[:, 2:]) / 2
    inside = (apart / stride.to(torch.float32).unsqueeze(1) + 0.5).clamp(
        _LEAST, 1 - _LEAST
    )
    sizes = (box[:, 2:] - box[:, :2]) / (anchor[:, 2:] - anchor[:, :2])
    return torch.cat([inside, sizes.clamp(min=_LEAST).log()], 1).to(self.dtype)


@npu_operator
def npu_anchor_response_flags(
    self: Tensor,
    featmap_size: Annotated[list[int], "int[2]"],
    stride: Annotated[list[int], "int[2]"],
    num_base_anchors: int,
) -> Tensor:
    """Which anchors stand in a cell that has the centre of a box, uint8 (h * w *
    num_base_anchors,).

    self              boxes (n, 4): left, top, right, bottom
    featmap_size      (h, w) of the grid
    stride            width and height of a cell
    num_base_anchors  a cell has so many anchors

    A centre outside of the grid marks none. RuntimeError: another shape or dtype, or a
    number that is not above 0.
    """
    name = "npu_anchor_response_flags"
    _check_boxes(name, "self", self)
    for what, numbers in (
        ("featmap_size", featmap_size),
        ("stride", stride),
        ("num_base_anchors", [num_base_anchors] * 2),
    ):
        right = len(numbers) == 2 and min(numbers) > 0
        check(right, name, f"{what} must be above 0, got {list(numbers)}")
    (high, wide), boxes = featmap_size, self.to(torch.float32)
    centre = (boxes[:, :2] + boxes[:, 2:]) * 0.5
    column = (centre[:, 0] / stride[0]).floor()
    row = (centre[:, 1] / stride[1]).floor()
    inside = (row >= 0) & (row < high) & (column >= 0) & (column < wide)
    # The others share a place behind the grid.
    place = torch.where(inside, row * wide + column, float(high * wide))
    flags = torch.zeros(high * wide + 1, dtype=torch.uint8, device=self.device)
    flags = flags.index_fill(0, place.to(torch.int64), 1)[:-1]
    return flags.unsqueeze(1).expand(-1, num_base_anchors).flatten()
