"""Boxes from anchors and differences, and the reverse.

After Ascend's API reference of torch_npu, pages npu_bounding_box_decode and
npu_bounding_box_encode, and the formula of Faster R-CNN that they name."""

from __future__ import annotations

import torch
from torch import Tensor

from ..checks import FLOATS, check, check_dtype, check_shape
from ..definition import npu_operator


def _check(name: str, boxes: dict[str, Tensor]) -> None:
    shape = (next(iter(boxes.values())).shape[0], 4)
    for what, tensor in boxes.items():
        check_dtype(tensor, name, what, FLOATS)
        check_shape(tensor, name, what, shape)


def _centres(boxes: Tensor) -> tuple[Tensor, Tensor]:
    """Centres and sizes (n, 2) of boxes (n, 4), whose last row and column count."""
    wide = boxes.to(torch.float32)
    first, last = wide[:, :2], wide[:, 2:]
    return (first + last) / 2, last - first + 1


@npu_operator
def npu_bounding_box_encode(
    anchor_box: Tensor,
    ground_truth_box: Tensor,
    means0: float,
    means1: float,
    means2: float,
    means3: float,
    stds0: float,
    stds1: float,
    stds2: float,
    stds3: float,
) -> Tensor:
    """The difference of two boxes (n, 4) of left, top, right and bottom, whose last column
    and row count: of their centres over the anchor's size, and the logarithm of the
    quotient of sizes; minus the means, over the deviations. Computed in f32. RuntimeError:
    another shape or dtype."""
    name = "npu_bounding_box_encode"
    _check(name, {"anchor_box": anchor_box, "ground_truth_box": ground_truth_box})
    centre, size = _centres(anchor_box)
    other, other_size = _centres(ground_truth_box)
    made = torch.cat([(other - centre) / size, (other_size / size).log()], 1)
    means = made.new_tensor([means0, means1, means2, means3])
    deviations = made.new_tensor([stds0, stds1, stds2, stds3])
    return ((made - means) / deviations).to(anchor_box.dtype)


@npu_operator
def npu_bounding_box_decode(
    rois: Tensor,
    deltas: Tensor,
    means0: float,
    means1: float,
    means2: float,
    means3: float,
    stds0: float,
    stds1: float,
    stds2: float,
    stds3: float,
    max_shape: list[int],
    wh_ratio_clip: float,
) -> Tensor:
    """The boxes that npu_bounding_box_encode made differences of, inside of an image of
    `max_shape` (h, w). Logarithms of sizes are at most |log(wh_ratio_clip)|. Computed in
    f32. RuntimeError: another shape or dtype."""
    name = "npu_bounding_box_decode"
    _check(name, {"rois": rois, "deltas": deltas})
    check(len(max_shape) == 2, name, f"max_shape must be (h, w), got {list(max_shape)}")
    check(wh_ratio_clip > 0, name, f"wh_ratio_clip must be positive: {wh_ratio_clip}")
    centre, size = _centres(rois)
    wide = deltas.to(torch.float32)
    wide = wide * wide.new_tensor([stds0, stds1, stds2, stds3])
    wide = wide + wide.new_tensor([means0, means1, means2, means3])
    most = abs(float(torch.tensor(wh_ratio_clip).log()))
    made = centre + wide[:, :2] * size
    half = size * wide[:, 2:].clamp(-most, most).exp() / 2
    corners = torch.cat([made - half + 0.5, made + half - 0.5], 1)
    height, width = max_shape
    limit = corners.new_tensor([width - 1, height - 1, width - 1, height - 1])
    return corners.clamp(min=0).minimum(limit).to(rois.dtype)
