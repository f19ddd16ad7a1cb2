"""Boxes that stay equal a loop in float64."""

from __future__ import annotations

import pytest
import torch

import torch_npu
from pictures import compiled

f32, f16, bf16 = torch.float32, torch.float16, torch.bfloat16


def some_boxes(count, dtype=f32):
    corner = torch.rand(count, 2) * 20
    boxes = torch.cat([corner, corner + 1 + torch.rand(count, 2) * 8], 1)
    return boxes.to(dtype), torch.rand(count).to(dtype)


def overlap(one, other):
    (a, b, c, d), (e, f, g, h) = one.tolist(), other.tolist()
    shared = max(min(c, g) - max(a, e), 0) * max(min(d, h) - max(b, f), 0)
    whole = (c - a) * (d - b) + (g - e) * (h - f) - shared
    return shared / whole if whole > 0 else 0.0


def greedy(boxes, scores, least, threshold, most=None, share=overlap):
    """The numbers of the boxes that stay, best first."""
    kept = []
    for place in torch.sort(scores, descending=True, stable=True)[1].tolist():
        if most is not None and len(kept) == most:
            break
        if scores[place] <= least:
            continue
        if all(share(boxes[place], boxes[one]) <= threshold for one in kept):
            kept.append(place)
    return kept


@pytest.mark.parametrize("dtype", [f32, f16, bf16])
@pytest.mark.parametrize("most", [3, 40])
def test_v4(dtype, most) -> None:
    boxes, scores = some_boxes(40, dtype)
    # Corners may come in any order.
    turned = torch.cat([boxes[:, 2:], boxes[:, :2]], 1)
    turned[::2] = boxes[::2]
    limit, least = torch.tensor(0.3), torch.tensor(0.25)

    def function(boxes, scores):
        return torch_npu.npu_nms_v4(boxes, scores, most, limit, least)

    wanted = greedy(boxes.double(), scores.double(), 0.25, 0.3, most)
    for run in (function, compiled(function)):
        made, count = run(turned, scores)
        assert made.dtype == count.dtype == torch.int32
        assert count.shape == ()
        assert made.tolist() == wanted + [0] * (most - len(wanted))
        assert int(count) == len(wanted)


def test_v4_of_symbolic_sizes() -> None:
    limit, least = torch.tensor(0.2), torch.tensor(0.1)

    def function(boxes, scores):
        return torch_npu.npu_nms_v4(boxes, scores, 9, limit, least)

    run = compiled(function, dynamic=True)
    for count in (7, 31, 12):
        boxes, scores = some_boxes(count)
        torch.testing.assert_close(run(boxes, scores), function(boxes, scores))


def test_a_long_chain_stays_every_second() -> None:
    """Each box overlaps the next alone, so that each answer follows from the last."""
    left = torch.arange(50.0) * 2
    boxes = torch.stack([left, left * 0, left + 3, left * 0 + 1], 1)
    scores = torch.linspace(1, 0.5, 50)
    limit, least = torch.tensor(0.15), torch.tensor(0.0)

    def function(boxes, scores):
        return torch_npu.npu_nms_v4(boxes, scores, 50, limit, least)

    for run in (function, compiled(function)):
        made, count = run(boxes, scores)
        assert int(count) == 25
        assert made[:25].tolist() == [*range(0, 50, 2)]


def test_no_number_is_no_score() -> None:
    boxes, scores = some_boxes(6)
    scores[2] = torch.nan
    told = torch.tensor(0.3), torch.tensor(0.0)
    made, count = torch_npu.npu_nms_v4(boxes, scores, 6, *told)
    assert 2 not in made[: int(count)].tolist()


@pytest.mark.parametrize("dtype", [f32, f16])
@pytest.mark.parametrize("most", [-1, 4])
def test_rotated(dtype, most) -> None:
    boxes = torch.rand(24, 5) * torch.tensor([30.0, 30, 9, 9, 180])
    boxes = (boxes + torch.tensor([0.0, 0, 2, 2, -90])).to(dtype)
    scores = torch.rand(24).to(dtype)

    def function(boxes, scores):
        return torch_npu.npu_nms_rotated(boxes, scores, 0.2, 0.1, most)

    # The areas that rotated boxes share have tests of their own.
    shares = torch_npu.npu_rotated_iou(boxes.float()[None], boxes.float()[None])[0]
    places = torch.arange(24)
    wanted = greedy(
        places,
        scores.double(),
        0.1,
        0.2,
        None if most < 0 else most,
        lambda one, other: float(shares[one, other]),
    )
    for run in (function, compiled(function)):
        made, count = run(boxes, scores)
        assert made.tolist() == wanted
        assert count.tolist() == [len(wanted)]


@pytest.mark.parametrize("dtype", [f32, f16])
@pytest.mark.parametrize("width", [5, 8])
def test_mask(dtype, width) -> None:
    boxes = torch.cat([some_boxes(30)[0], torch.rand(30, width - 4)], 1).to(dtype)

    def function(boxes):
        return torch_npu.npu_nms_with_mask(boxes, 0.25)

    order = torch.arange(30, 0, -1).double()
    wanted = sorted(greedy(boxes[:, :4].double(), order, 0, 0.25))
    for run in (function, compiled(function)):
        made, number, mask = run(boxes)
        assert made.dtype == dtype
        torch.testing.assert_close(made, boxes[:, :5])
        assert number.tolist() == [*range(30)]
        assert mask.dtype == torch.uint8
        assert mask.nonzero().squeeze(1).tolist() == wanted


def batch_of(boxes, scores, per_class, total):
    """Of one image: (score, class, box), best first."""
    found = []
    for number in range(scores.shape[1]):
        own = boxes[:, number if boxes.shape[1] > 1 else 0]
        able = torch.where((own[:, 2:] > own[:, :2]).all(1), scores[:, number], -1)
        for place in greedy(own, able, 0.2, 0.3, per_class):
            found.append((float(able[place]), number, own[place].tolist()))
    return sorted(found, key=lambda one: (-one[0], one[1]))[:total]


@pytest.mark.parametrize("classes_of_boxes", [1, 3])
@pytest.mark.parametrize("dtype", [f32, f16])
@pytest.mark.parametrize("transposed", [False, True])
def test_batch(dtype, classes_of_boxes, transposed) -> None:
    boxes = torch.stack(
        [some_boxes(20 * classes_of_boxes)[0].view(20, -1, 4) for _ in range(2)]
    ).to(dtype)
    boxes[0, 3] = boxes[0, 3].flip(-1)  # without an area
    scores = torch.rand(2, 20, 3).to(dtype)
    given = boxes.permute(0, 2, 3, 1).contiguous() if transposed else boxes

    def function(boxes, scores):
        return torch_npu.npu_batch_nms(
            boxes, scores, 0.2, 0.3, 4, 10, transpose_box=transposed
        )

    for run in (function, compiled(function)):
        made, values, classes, count = run(given, scores)
        assert {made.dtype, values.dtype, classes.dtype} == {dtype}
        for image in range(2):
            wanted = batch_of(boxes[image].double(), scores[image].double(), 4, 10)
            size = int(count[image])
            assert size == len(wanted)
            assert values[image, :size].tolist() == [one[0] for one in wanted]
            assert classes[image, :size].tolist() == [one[1] for one in wanted]
            assert made[image, :size].tolist() == [one[2] for one in wanted]
            assert not made[image, size:].any()


def test_wrong_arguments() -> None:
    boxes, scores = some_boxes(4)
    limit = torch.tensor(0.5)
    for name, told, text in (
        ("npu_nms_v4", (boxes, scores[:3], 2, limit, limit), "scores must have shape"),
        ("npu_nms_v4", (boxes, scores, 0, limit, limit), "max_output_size must be"),
        ("npu_nms_v4", (boxes[0], scores, 2, limit, limit), "self must be .n, 4."),
        (
            "npu_nms_v4",
            (boxes, scores, 2, scores, limit),
            "iou_threshold must have shape",
        ),
        ("npu_nms_rotated", (boxes, scores, 0.5), "self must be .n, 5."),
        ("npu_nms_with_mask", (boxes, 0.5), "input must be .n, 5. or .n, 8."),
        (
            "npu_batch_nms",
            (boxes.view(1, 4, 1, 4), scores, 0.1, 0.5, 2, 2),
            "scores must be .b, n, classes.",
        ),
        (
            "npu_batch_nms",
            (boxes.view(1, 2, 2, 4), torch.rand(1, 2, 3), 0.1, 0.5, 2, 2),
            "self must have boxes of 1 or 3 classes, got 2",
        ),
    ):
        with pytest.raises(RuntimeError, match=f"{name}: {text}"):
            getattr(torch_npu, name)(*told)
    rotated = torch.ones(4, 5)
    for given, text in (
        ({"mode": 1}, "mode must be 0"),
        ({"max_output_size": 0}, "-1"),
    ):
        with pytest.raises(RuntimeError, match=text):
            torch_npu.npu_nms_rotated(rotated, scores, 0.5, **given)
