"""How much boxes overlap.

After Ascend's API reference of torch_npu, pages npu_iou, npu_ptiou, npu_giou, npu_diou and
npu_ciou, and op-plugin's tests of them."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from ..checks import FLOATS, check, check_dtype
from ..definition import npu_operator

_EPSILON = 1e-9


class _Boxes(NamedTuple):
    """Corners of boxes, f32."""

    left: Tensor
    top: Tensor
    right: Tensor
    bottom: Tensor

    def area(self) -> Tensor:
        return (self.right - self.left) * (self.bottom - self.top)


def _boxes(corners: list[Tensor], centred: bool) -> _Boxes:
    first, second, third, fourth = (part.to(torch.float32) for part in corners)
    if not centred:
        return _Boxes(first, second, third, fourth)
    half, high = third / 2, fourth / 2
    return _Boxes(first - half, second - high, first + half, second + high)


def _both(
    name: str, self: Tensor, gtboxes: Tensor, centred: bool, crossed: bool, mode: int
) -> tuple[_Boxes, _Boxes]:
    """The boxes (4, n) and (4, m), broadcast to (m, n), or to (1, n) of pairs."""
    check(mode == 0, name, f"mode must be 0, got {mode}")
    for what, boxes in (("self", self), ("gtboxes", gtboxes)):
        check_dtype(boxes, name, what, FLOATS)
        right = boxes.dim() == 2 and boxes.shape[0] == 4
        check(right, name, f"{what} must be (4, n), got {tuple(boxes.shape)}")
    pairs = self.shape[1] == gtboxes.shape[1]
    text = f"gtboxes must have {self.shape[1]} boxes unless is_cross, got"
    check(crossed or pairs, name, f"{text} {gtboxes.shape[1]}")
    others = gtboxes.unsqueeze(-1) if crossed else gtboxes.unsqueeze(1)
    return (
        _boxes([*self.unsqueeze(1).unbind()], centred),
        _boxes([*others.unbind()], centred),
    )


def _shared(one: _Boxes, other: _Boxes) -> Tensor:
    width = torch.minimum(one.right, other.right) - torch.maximum(one.left, other.left)
    height = torch.minimum(one.bottom, other.bottom) - torch.maximum(one.top, other.top)
    return width.clamp(min=0) * height.clamp(min=0)


def _outer(one: _Boxes, other: _Boxes) -> tuple[Tensor, Tensor]:
    """Width and height of the smallest box around two."""
    width = torch.maximum(one.right, other.right) - torch.minimum(one.left, other.left)
    height = torch.maximum(one.bottom, other.bottom) - torch.minimum(one.top, other.top)
    return width, height


def _overlap(one: _Boxes, other: _Boxes) -> Tensor:
    shared = _shared(one, other)
    return shared / (one.area() + other.area() - shared + _EPSILON)


def _apart(one: _Boxes, other: _Boxes) -> Tensor:
    """The squared distance of the centres over that of the outer corners."""
    width, height = _outer(one, other)
    across = other.left + other.right - one.left - one.right
    down = other.top + other.bottom - one.top - one.bottom
    far = width.square() + height.square() + _EPSILON
    return (across.square() + down.square()) / 4 / far


def _by_rows(name: str, bboxes: Tensor, gtboxes: Tensor, mode: int) -> Tensor:
    check(mode in (0, 1), name, f"mode must be 0 or 1, got {mode}")
    for what, boxes in (("bboxes", bboxes), ("gtboxes", gtboxes)):
        check_dtype(boxes, name, what, FLOATS)
        right = boxes.dim() == 2 and boxes.shape[1] == 4
        check(right, name, f"{what} must be (n, 4), got {tuple(boxes.shape)}")
    one = _boxes([*bboxes.t().unsqueeze(1).unbind()], False)
    other = _boxes([*gtboxes.t().unsqueeze(-1).unbind()], False)
    shared = _shared(one, other)
    whole = other.area() + (0 if mode else one.area() - shared)
    safe = torch.where(whole > 0, whole, 1.0)
    return torch.where(whole > 0, shared / safe, 0.0).to(bboxes.dtype)


@npu_operator
def npu_iou(bboxes: Tensor, gtboxes: Tensor, mode: int = 0) -> Tensor:
    """The shared area of each pair of boxes over the area of both, (m, n) in bboxes' dtype;
    0 for boxes without an area. Computed in f32.

    bboxes, gtboxes  (n, 4) and (m, 4): left, top, right, bottom
    mode             1: over the area of the box of gtboxes

    RuntimeError: another shape, dtype or mode.
    """
    return _by_rows("npu_iou", bboxes, gtboxes, mode)


@npu_operator
def npu_ptiou(bboxes: Tensor, gtboxes: Tensor, mode: int = 0) -> Tensor:
    """npu_iou by its other name."""
    return _by_rows("npu_ptiou", bboxes, gtboxes, mode)


@npu_operator
def npu_giou(
    self: Tensor,
    gtboxes: Tensor,
    trans: bool = False,
    is_cross: bool = False,
    mode: int = 0,
) -> Tensor:
    """The overlap of boxes, minus the part of the box around both that neither covers.
    Computed in f32.

    self, gtboxes  (4, n) and (4, m): left, top, right, bottom; with `trans` centre, width
                   and height
    is_cross       all pairs, (m, n); else the pairs of one number, (1, n)
    mode           0

    RuntimeError: another shape, dtype or mode.
    """
    one, other = _both("npu_giou", self, gtboxes, trans, is_cross, mode)
    width, height = _outer(one, other)
    outer = width.abs() * height.abs() + _EPSILON
    shared = _shared(one, other)
    union = one.area() + other.area() - shared
    return (_overlap(one, other) - (outer - union) / outer).to(self.dtype)


@npu_operator
def npu_diou(
    self: Tensor,
    gtboxes: Tensor,
    trans: bool = False,
    is_cross: bool = False,
    mode: int = 0,
) -> Tensor:
    """The overlap of boxes, minus the squared distance of their centres over that of the
    corners of the box around both. Computed in f32.

    The arguments are those of npu_giou. RuntimeError: another shape, dtype or mode.
    """
    one, other = _both("npu_diou", self, gtboxes, trans, is_cross, mode)
    return (_overlap(one, other) - _apart(one, other)).to(self.dtype)


@npu_operator
def npu_ciou(
    self: Tensor,
    gtboxes: Tensor,
    trans: bool = False,
    is_cross: bool = True,
    mode: int = 0,
    atan_sub_flag: bool = False,
) -> Tensor:
    """npu_diou, minus a term of how much the boxes differ in width over height.

    atan_sub_flag  has no effect: nothing is kept for gradients

    RuntimeError: another shape, dtype or mode.
    """
    one, other = _both("npu_ciou", self, gtboxes, trans, is_cross, mode)
    overlap = _overlap(one, other)
    angles = [
        torch.atan((box.right - box.left) / (box.bottom - box.top + _EPSILON))
        for box in (one, other)
    ]
    differ = 4 / math.pi**2 * (angles[1] - angles[0]).square()
    weight = differ / (1 + _EPSILON - overlap + differ)
    return (overlap - _apart(one, other) - weight * differ).to(self.dtype)
