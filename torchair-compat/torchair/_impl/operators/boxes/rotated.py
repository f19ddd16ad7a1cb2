"""Differences of rotated boxes, and the boxes that have them.

After op-plugin's tests of npu_rotated_box_encode and npu_rotated_box_decode."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from ..checks import FLOATS, check, check_dtype, check_shape
from ..definition import npu_operator

_TURN = math.pi / 180


class _Rotated(NamedTuple):
    """Centres, sizes and tangents of the angles, (b, n) in f32."""

    across: Tensor
    down: Tensor
    width: Tensor
    height: Tensor
    tangent: Tensor


def _boxes(corners: Tensor) -> _Rotated:
    left, top, right, bottom, angle = corners.to(torch.float32).unbind(1)
    return _Rotated(
        (left + right) / 2,
        (top + bottom) / 2,
        right - left,
        bottom - top,
        torch.tan(angle * _TURN),
    )


def _check(name: str, other: str, self: Tensor, values: Tensor, weight: Tensor) -> None:
    for what, given in (("self", self), (other, values), ("weight", weight)):
        check_dtype(given, name, what, FLOATS)
    right = self.dim() == 3 and self.shape[1] == 5
    check(right, name, f"self must be (b, 5, n), got {tuple(self.shape)}")
    check_shape(values, name, other, tuple(self.shape))
    check_shape(weight, name, "weight", (5,))


@npu_operator
def npu_rotated_box_encode(self: Tensor, gt_bboxes: Tensor, weight: Tensor) -> Tensor:
    """The differences of two rotated boxes, (b, 5, n) in self's dtype: of their centres over
    the size of self, the logarithm of the quotient of sizes, and the difference of the
    tangents of the angles; times weight. Computed in f32.

    self, gt_bboxes  (b, 5, n): left, top, right, bottom, and the angle in degrees
    weight           (5,)

    RuntimeError: another shape or dtype.
    """
    _check("npu_rotated_box_encode", "gt_bboxes", self, gt_bboxes, weight)
    one, other = _boxes(self), _boxes(gt_bboxes)
    found = (
        (other.across - one.across) / one.width,
        (other.down - one.down) / one.height,
        torch.log(other.width / one.width),
        torch.log(other.height / one.height),
        other.tangent - one.tangent,
    )
    factors = weight.to(torch.float32).unsqueeze(-1)
    return (torch.stack(found, 1) * factors).to(self.dtype)


@npu_operator
def npu_rotated_box_decode(self: Tensor, deltas: Tensor, weight: Tensor) -> Tensor:
    """The boxes of which npu_rotated_box_encode made the differences `deltas`, (b, 5, n) in
    self's dtype; angles are from -90 to 90 degrees. Computed in f32.

    The arguments are those of npu_rotated_box_encode. RuntimeError: another shape or
    dtype.
    """
    _check("npu_rotated_box_decode", "deltas", self, deltas, weight)
    one, moved = _boxes(self), deltas.to(torch.float32)
    across, down, wide, high, turned = (
        moved / weight.to(torch.float32).unsqueeze(-1)
    ).unbind(1)
    middle = one.across + across * one.width, one.down + down * one.height
    half = one.width * wide.exp() / 2, one.height * high.exp() / 2
    found = (
        middle[0] - half[0],
        middle[1] - half[1],
        middle[0] + half[0],
        middle[1] + half[1],
        torch.atan(one.tangent + turned) / _TURN,
    )
    return torch.stack(found, 1).to(self.dtype)
