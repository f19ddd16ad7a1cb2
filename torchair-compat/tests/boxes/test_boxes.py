"""Operators of boxes equal formulas in float64, and the examples of their pages."""

from __future__ import annotations

import math

import pytest
import torch

import torch_npu
from pictures import compiled


def boxes(count):
    first = torch.rand(2, count) * 10
    return torch.cat([first, first + torch.rand(2, count) * 10])


def corners(values, centred):
    values = values.double()
    if not centred:
        return values.tolist()
    x, y, w, h = values
    return torch.stack([x - w / 2, y - h / 2, x + w / 2, y + h / 2]).tolist()


def wanted_of(name, one, other):
    """Of two boxes, each left, top, right and bottom."""
    across = min(one[2], other[2]) - max(one[0], other[0])
    down = min(one[3], other[3]) - max(one[1], other[1])
    shared = max(across, 0) * max(down, 0)
    sizes = [(box[2] - box[0], box[3] - box[1]) for box in (one, other)]
    union = sum(w * h for w, h in sizes) - shared
    width = max(one[2], other[2]) - min(one[0], other[0])
    height = max(one[3], other[3]) - min(one[1], other[1])
    overlap = shared / union
    if name == "npu_giou":
        return overlap - (width * height - union) / (width * height)
    far = sum((other[i] + other[i + 2] - one[i] - one[i + 2]) ** 2 for i in (0, 1)) / 4
    made = overlap - far / (width**2 + height**2)
    if name == "npu_diou":
        return made
    angle = math.atan(sizes[1][0] / sizes[1][1]) - math.atan(sizes[0][0] / sizes[0][1])
    term = 4 / math.pi**2 * angle**2
    return made - term * term / (1 - overlap + term)


@pytest.mark.parametrize("crossed", [False, True])
@pytest.mark.parametrize("centred", [False, True])
@pytest.mark.parametrize("name", ["npu_giou", "npu_diou", "npu_ciou"])
def test_overlaps(name, centred, crossed) -> None:
    first, second = boxes(5), boxes(7 if crossed else 5)
    columns = [[*zip(*corners(values, centred))] for values in (first, second)]
    if crossed:
        rows = [
            [wanted_of(name, one, other) for one in columns[0]] for other in columns[1]
        ]
    else:
        rows = [[wanted_of(name, one, other) for one, other in zip(*columns)]]
    made = getattr(torch_npu, name)(first, second, centred, crossed)
    torch.testing.assert_close(made, torch.tensor(rows), atol=1e-4, rtol=1e-4)


def test_overlaps_of_rows() -> None:
    first, second = boxes(5).t(), boxes(3).t()
    second[1, 2:] = second[1, :2]  # no area

    def function(first, second):
        return [torch_npu.npu_iou(first, second, mode) for mode in (0, 1)]

    for run in (function, compiled(function)):
        for mode, made in enumerate(run(first, second)):
            assert made.shape == (3, 5)
            for row, other in enumerate(second.double().tolist()):
                for column, one in enumerate(first.double().tolist()):
                    across = max(min(one[2], other[2]) - max(one[0], other[0]), 0)
                    down = max(min(one[3], other[3]) - max(one[1], other[1]), 0)
                    areas = [(b[2] - b[0]) * (b[3] - b[1]) for b in (one, other)]
                    whole = areas[1] if mode else sum(areas) - across * down
                    wanted = across * down / whole if whole else 0.0
                    assert abs(float(made[row, column]) - wanted) < 1e-4
    assert torch.equal(torch_npu.npu_ptiou(first, second), function(first, second)[0])


def test_examples_of_the_pages() -> None:
    anchors = torch.tensor([[1.0, 2, 3, 4], [3, 4, 5, 6]])
    deltas = torch.tensor([[5.0, 6, 7, 8], [7, 8, 9, 6]])
    told = 0, 0, 0, 0, 1, 1, 1, 1, (10, 10), 0.1
    made = torch_npu.npu_bounding_box_decode(anchors, deltas, *told)
    assert made.tolist() == [[2.5, 6.5, 9, 9], [9, 9, 9, 9]]
    told = 0, 0, 0, 0, 0.1, 0.1, 0.2, 0.2
    made = torch_npu.npu_bounding_box_encode(anchors, deltas, *told)
    wanted = torch.tensor([[40 / 3, 40 / 3, 0, 0], [40 / 3, 20 / 3, 0, math.nan]])
    torch.testing.assert_close(made, wanted, equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_there_and_back(dtype) -> None:
    first, second = boxes(6).t().to(dtype), boxes(6).t().to(dtype)
    means, deviations = (0.1, -0.2, 0.3, 0.0), (0.1, 0.1, 0.2, 0.2)
    made = torch_npu.npu_bounding_box_encode(first, second, *means, *deviations)
    # The decoding adds means after it multiplies by deviations.
    moved = [mean * deviation for mean, deviation in zip(means, deviations)]
    again = torch_npu.npu_bounding_box_decode(
        first, made, *moved, *deviations, (100, 100), 1e-6
    )
    close = 1e-3 if dtype == torch.float32 else 0.2
    scale = torch.tensor(deviations).double()
    shift = (
        torch.tensor(means).double() * 2 - torch.tensor(moved).double() / scale
    ) * 0
    assert not shift.any()
    raw = made.double() * scale + torch.tensor(moved).double()
    size = (first[:, 2:] - first[:, :2]).double() + 1
    centre = (first[:, 2:] + first[:, :2]).double() / 2 + raw[:, :2] * size
    half = size * raw[:, 2:].exp() / 2
    wanted = torch.cat([centre - half + 0.5, centre + half - 0.5], 1).clamp(0, 99)
    torch.testing.assert_close(again.double(), wanted, atol=close, rtol=close)


def test_wrong_arguments() -> None:
    first, rows = boxes(5), boxes(5).t()
    for name, arguments, text in (
        ("npu_giou", (first, first, False, False, 1), "mode must be 0, got 1"),
        (
            "npu_diou",
            (first, boxes(3)),
            "gtboxes must have 5 boxes unless is_cross, got 3",
        ),
        ("npu_ciou", (rows[:3], first), "self must be .4, n."),
        ("npu_iou", (first, rows), "bboxes must be .n, 4."),
        ("npu_iou", (rows, rows, 2), "mode must be 0 or 1, got 2"),
        (
            "npu_bounding_box_encode",
            (rows, rows[:2], *[1.0] * 8),
            "ground_truth_box must",
        ),
    ):
        with pytest.raises(RuntimeError, match=f"{name}: .*{text}"):
            getattr(torch_npu, name)(*arguments)
    with pytest.raises(RuntimeError, match="max_shape must be .h, w., got .3."):
        torch_npu.npu_bounding_box_decode(rows, rows, *[1.0] * 8, [3], 0.1)
