"""Areas that rotated boxes share equal those of polygons that are cut, in float64."""

from __future__ import annotations

import math

import pytest
import torch

import torch_npu
from pictures import compiled


def corners(box, by_corners):
    a, b, c, d, angle = box
    x, y, w, h = (
        ((a + c) / 2, (b + d) / 2, c - a, d - b) if by_corners else (a, b, c, d)
    )
    turn = math.radians(angle)
    return [
        (
            x + w * i / 2 * math.cos(turn) - h * j / 2 * math.sin(turn),
            y + w * i / 2 * math.sin(turn) + h * j / 2 * math.cos(turn),
        )
        for i, j in ((-1, -1), (1, -1), (1, 1), (-1, 1))
    ]


def side(start, end, point):
    return (end[0] - start[0]) * (point[1] - start[1]) - (end[1] - start[1]) * (
        point[0] - start[0]
    )


def cut(polygon, start, end):
    """The part of the polygon on the left of a line."""
    made = []
    for one, other in zip(polygon, polygon[1:] + polygon[:1]):
        first, second = side(start, end, one), side(start, end, other)
        if first >= 0:
            made.append(one)
        if (first > 0 > second) or (first < 0 < second):
            part = first / (first - second)
            made.append(tuple(p + part * (q - p) for p, q in zip(one, other)))
    return made


def shared(one, other, by_corners):
    polygon = corners(one, by_corners)
    lines = corners(other, by_corners)
    for start, end in zip(lines, lines[1:] + lines[:1]):
        polygon = cut(polygon, start, end)
    pairs = zip(polygon, polygon[1:] + polygon[:1])
    return abs(sum(p[0] * q[1] - p[1] * q[0] for p, q in pairs)) / 2


def boxes(count, by_corners, dtype):
    middle = torch.rand(2, count, 2) * 20
    size = torch.rand(2, count, 2) * 12 + 1
    angle = torch.randint(-180, 180, (2, count, 1))
    if by_corners:
        return torch.cat([middle, middle + size, angle], -1).to(dtype)
    return torch.cat([middle, size, angle], -1).to(dtype)


def table(one, other, by_corners):
    return torch.tensor(
        [
            [[shared(p, q, by_corners) for q in right] for p in left]
            for left, right in zip(one.double().tolist(), other.double().tolist())
        ]
    )


@pytest.mark.parametrize("by_corners", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_areas(dtype, by_corners) -> None:
    torch.manual_seed(1)
    one, other = boxes(5, by_corners, dtype), boxes(7, by_corners, dtype)
    wanted = table(one, other, by_corners)
    assert (wanted > 1).sum() > 9

    def function(one, other):
        return (
            torch_npu.npu_rotated_overlaps(one, other, by_corners),
            torch_npu.npu_rotated_iou(one, other, by_corners),
            torch_npu.npu_rotated_iou(one, other, by_corners, 1),
        )

    def area(values):
        a, b, c, d = values.double().unbind(-1)[:4]
        return (c - a) * (d - b) if by_corners else c * d

    mine, theirs = area(one).unsqueeze(-1), area(other).unsqueeze(-2)
    parts = wanted, wanted / (mine + theirs - wanted), wanted / mine
    runs = [function]
    if dtype == torch.float32:
        runs.append(compiled(function, dynamic=by_corners))
    for run in runs:
        for made, part in zip(run(one, other), parts, strict=True):
            torch.testing.assert_close(made, part.to(dtype), atol=1e-4, rtol=1e-3)


def test_boxes_that_meet() -> None:
    """Boxes that are equal, share a side, lie in each other, or have no area."""
    lines = [
        ([5, 5, 4, 6, 30], [5, 5, 4, 6, 30], 24),
        ([5, 5, 4, 6, 0], [9, 5, 4, 6, 0], 0),
        ([5, 5, 4, 6, 0], [5, 6, 4, 4, 0], 16),
        ([5, 5, 4, 6, 90], [5, 5, 6, 4, 0], 24),
        ([5, 5, 4, 6, 17], [5, 5, 1, 1, 60], 1),
        ([5, 5, 4, 6, 17], [5, 5, 0, 3, 60], 0),
        ([5, 5, 2, 2, 45], [5, 5, 2, 2, 0], 8 * (math.sqrt(2) - 1)),
    ]
    for one, other, wanted in lines:
        pair = [torch.tensor([[box]], dtype=torch.float32) for box in (one, other)]
        for first, second in (pair, pair[::-1]):
            made = torch_npu.npu_rotated_overlaps(first, second)
            assert float(made) == pytest.approx(wanted, abs=1e-5)


def test_wrong_arguments() -> None:
    one = torch.rand(2, 3, 5)
    for name in ("npu_rotated_overlaps", "npu_rotated_iou"):
        run = getattr(torch_npu, name)
        with pytest.raises(RuntimeError, match=f"{name}: self must be .b, n, 5."):
            run(one.mT, one)
        with pytest.raises(RuntimeError, match="query_boxes must have 2 batches"):
            run(one, one[:1])
    with pytest.raises(RuntimeError, match="mode must be 0 or 1"):
        torch_npu.npu_rotated_iou(one, one, mode=2)
    with pytest.raises(NotImplementedError, match="is_cross must be True"):
        torch_npu.npu_rotated_iou(one, one, is_cross=False)
