"""The areas that rotated boxes share.

After Ascend's API reference of torch_npu, pages npu_rotated_overlaps and npu_rotated_iou, and
op-plugin's tests of them, whose boxes lie along the last dimension."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ..checks import FLOATS, check, check_dtype
from ..definition import npu_operator
from ..schema import Reserved

# Of the length of a side: so near is a point on it.
_NEAR = 1e-9


def _corners(boxes: Tensor, by_corners: bool) -> tuple[Tensor, Tensor]:
    """The four corners (..., 4, 2) of boxes (..., 5) in their order, and the areas."""
    first, second, third, fourth, angle = boxes.unbind(-1)
    if by_corners:
        x, y = (first + third) / 2, (second + fourth) / 2
        width, height = third - first, fourth - second
    else:
        x, y, width, height = first, second, third, fourth
    turn = (angle * (math.pi / 180)).unsqueeze(-1)
    signs = boxes.new_tensor([[-1, -1], [1, -1], [1, 1], [-1, 1]]) / 2
    across, down = width.unsqueeze(-1) * signs[:, 0], height.unsqueeze(-1) * signs[:, 1]
    places = (
        x.unsqueeze(-1) + across * turn.cos() - down * turn.sin(),
        y.unsqueeze(-1) + across * turn.sin() + down * turn.cos(),
    )
    return torch.stack(places, -1), width * height


def _cross(one: Tensor, other: Tensor) -> Tensor:
    return one[..., 0] * other[..., 1] - one[..., 1] * other[..., 0]


def _inside(points: Tensor, corners: Tensor) -> Tensor:
    """Whether points (..., p, 2) are in the boxes of corners (..., 4, 2)."""
    points, origin = points.unsqueeze(-2), corners[..., :1, :].unsqueeze(-3)
    inside = None
    for end in (1, 3):
        side = corners[..., end : end + 1, :].unsqueeze(-3) - origin
        length = side.square().sum(-1)
        along = ((points - origin) * side).sum(-1) / length.clamp(min=1e-30)
        held = (along >= -_NEAR) & (along <= 1 + _NEAR)
        inside = held if inside is None else inside & held
    assert inside is not None
    return inside.squeeze(-1)


def _crossings(one: Tensor, other: Tensor) -> tuple[Tensor, Tensor]:
    """Where the sides of two boxes cross: points (..., 16, 2), and which of them do."""
    start, begin = one.unsqueeze(-2), other.unsqueeze(-3)
    side = one.roll(-1, -2).unsqueeze(-2) - start
    edge = other.roll(-1, -2).unsqueeze(-3) - begin
    turned = _cross(side, edge)
    # Parallel sides cross nowhere: a side's end shows where they meet.
    far = side.square().sum(-1) * edge.square().sum(-1)
    parallel = turned.square() <= _NEAR**2 * far
    safe = torch.where(parallel, 1.0, turned)
    apart = begin - start
    along, beside = _cross(apart, edge) / safe, _cross(apart, side) / safe
    on_both = (along >= 0) & (along <= 1) & (beside >= 0) & (beside <= 1)
    points = start + along.unsqueeze(-1) * side
    return points.flatten(-3, -2), (on_both & ~parallel).flatten(-2)


def _hull_area(points: Tensor, held: Tensor) -> Tensor:
    """The area of the polygon of those points (..., p, 2) that are held, which are corners
    of something convex."""
    count = held.sum(-1, keepdim=True)
    kept = torch.where(held.unsqueeze(-1), points, 0.0)
    middle = kept.sum(-2, keepdim=True) / count.clamp(min=1).unsqueeze(-1)
    apart = points - middle
    angle = torch.where(held, torch.atan2(apart[..., 1], apart[..., 0]), 9.0)
    order = torch.argsort(angle, stable=True, dim=-1)
    # In the place of the others, which come last, stands the first corner.
    rank = torch.arange(points.shape[-2], device=points.device)
    order = torch.where(rank < count, order, order[..., :1])
    index = order.unsqueeze(-1).expand(*order.shape, 2)
    corners = apart.gather(-2, index)
    area = _cross(corners, corners.roll(-1, -2)).sum(-1).abs() / 2
    return torch.where(count.squeeze(-1) > 2, area, 0.0)


def _shared(
    name: str, self: Tensor, query_boxes: Tensor, by_corners: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """The areas that boxes share, (b, n, k), of self's, (b, n, 1), and of the others, (b,
    1, k), in f64: corners that nearly meet need it."""
    for what, boxes in (("self", self), ("query_boxes", query_boxes)):
        check_dtype(boxes, name, what, FLOATS)
        right = boxes.dim() == 3 and boxes.shape[2] == 5
        check(right, name, f"{what} must be (b, n, 5), got {tuple(boxes.shape)}")
    batches = self.shape[0], query_boxes.shape[0]
    text = f"query_boxes must have {batches[0]} batches as self has, got {batches[1]}"
    check(batches[0] == batches[1], name, text)
    wide = self.to(torch.float64).unsqueeze(2)
    others = query_boxes.to(torch.float64).unsqueeze(1)
    one, mine = _corners(wide, by_corners)
    other, theirs = _corners(others, by_corners)
    shape = torch.broadcast_shapes(one.shape, other.shape)
    one, other = one.expand(shape), other.expand(shape)
    points, cross = _crossings(one, other)
    held = torch.cat([cross, _inside(one, other), _inside(other, one)], -1)
    area = _hull_area(torch.cat([points, one, other], -2), held)
    return torch.where((mine > 0) & (theirs > 0), area, 0.0), mine, theirs


@npu_operator
def npu_rotated_overlaps(
    self: Tensor, query_boxes: Tensor, trans: bool = False
) -> Tensor:
    """The area that each pair of rotated boxes shares, (b, n, k) in self's dtype.

    self, query_boxes  (b, n, 5) and (b, k, 5): centre, width, height and angle in degrees;
                       with `trans` left, top, right, bottom and angle

    Boxes without an area share none. RuntimeError: another shape or dtype.
    """
    area = _shared("npu_rotated_overlaps", self, query_boxes, trans)[0]
    return area.to(self.dtype)


@npu_operator
def npu_rotated_iou(
    self: Tensor,
    query_boxes: Tensor,
    trans: bool = False,
    mode: int = 0,
    is_cross: Reserved[bool] = True,
    v_threshold: Reserved[float] = 0.0,
    e_threshold: Reserved[float] = 0.0,
) -> Tensor:
    """npu_rotated_overlaps over the area of both boxes, or with `mode` 1 over that of the
    box of self; 0 for boxes without an area. RuntimeError: another shape, dtype or mode.
    """
    name = "npu_rotated_iou"
    check(mode in (0, 1), name, f"mode must be 0 or 1, got {mode}")
    area, mine, theirs = _shared(name, self, query_boxes, trans)
    whole = mine + 0 * theirs if mode else mine + theirs - area
    return _quotient(area, whole).to(self.dtype)


def rotated_overlap(self: Tensor, others: Tensor) -> Tensor:
    """The area that boxes (b, n, 5) and (b, k, 5) of centres share over that of both, f64
    (b, n, k)."""
    area, mine, theirs = _shared("rotated_overlap", self, others, False)
    return _quotient(area, mine + theirs - area)


def _quotient(area: Tensor, whole: Tensor) -> Tensor:
    return torch.where(whole > 0, area / torch.where(whole > 0, whole, 1.0), 0.0)
