"""Means under the cells of boxes, and anchors, equal loops in float64."""

from __future__ import annotations

import math

import pytest
import torch

import torch_npu
from pictures import compiled

f32, f16, bf16 = torch.float32, torch.float16, torch.bfloat16


def pooled(images, rois, scale, group, results):
    """One box after the other."""
    boxes = rois.transpose(1, 2).flatten(0, 1).tolist()
    made = torch.zeros(len(boxes), results, group, group, dtype=torch.float64)
    high, wide = images.shape[2:]
    for number, (image, left, top, right, bottom) in enumerate(boxes):
        start = [round(top) * scale, round(left) * scale]
        size = [
            max((round(bottom) + 1) * scale - start[0], 0.1),
            max((round(right) + 1) * scale - start[1], 0.1),
        ]
        for i in range(group):
            for j in range(group):
                first = [
                    math.floor(start[k] + size[k] * (i, j)[k] / group) for k in (0, 1)
                ]
                last = [
                    math.ceil(start[k] + size[k] * ((i, j)[k] + 1) / group)
                    for k in (0, 1)
                ]
                rows = slice(max(first[0], 0), min(max(last[0], 0), high))
                columns = slice(max(first[1], 0), min(max(last[1], 0), wide))
                for one in range(results):
                    channel = (one * group + i) * group + j
                    part = images[int(image), channel, rows, columns]
                    made[number, one, i, j] = part.mean() if part.numel() else 0
    return made


@pytest.mark.parametrize("dtype", [f32, f16, bf16])
@pytest.mark.parametrize("group", [1, 3])
def test_pooling(dtype, group) -> None:
    images = torch.randn(2, 2 * group**2, 7, 9).to(dtype)
    corner = torch.rand(2, 2, 5) * 9
    size = torch.rand(2, 2, 5) * 9
    number = torch.tensor([0.0, 1]).view(2, 1, 1).expand(2, 1, 5)
    rois = torch.cat([number, corner, corner + size], 1).to(dtype)
    rois[0, 1:, 4] = 40  # outside

    def function(images, rois):
        return torch_npu.npu_ps_roi_pooling(images, rois, 0.5, group, 2)

    wanted = pooled(images.double(), rois.double(), 0.5, group, 2)
    for run in (function, compiled(function)):
        made = run(images, rois)
        assert made.dtype == dtype
        torch.testing.assert_close(made, wanted.to(dtype), atol=1e-5, rtol=2e-2)
    assert not function(images, rois)[4].any()


def test_what_is_not_in_a_cell_is_not_read() -> None:
    images = torch.ones(1, 1, 4, 4)
    images[0, 0, 2:] = torch.nan
    rois = torch.tensor([0.0, 0, 0, 3, 1]).view(1, 5, 1)
    assert torch_npu.npu_ps_roi_pooling(images, rois, 1.0, 1, 1).item() == 1


def test_example_of_pooling() -> None:
    rois = torch.arange(1.0, 11).view(2, 5, 1).half()
    images = torch.arange(1.0, 17).view(2, 8, 1, 1).half()
    assert not torch_npu.npu_ps_roi_pooling(images, rois, 0.5, 2, 2).any()


@pytest.mark.parametrize("dtype", [f32, f16])
def test_yolo(dtype) -> None:
    def boxes(count):
        corner = torch.rand(count, 2) * 20
        return torch.cat([corner, corner + 1 + torch.rand(count, 2) * 9], 1).to(dtype)

    anchors, given = boxes(20), boxes(20)
    stride = torch.randint(4, 33, (20,), dtype=torch.int32)
    one, other = anchors.double(), given.double()
    apart = (other[:, :2] + other[:, 2:] - one[:, :2] - one[:, 2:]) / 2
    inside = (apart / stride.double()[:, None] + 0.5).clamp(1e-6, 1 - 1e-6)
    sizes = (other[:, 2:] - other[:, :2]) / (one[:, 2:] - one[:, :2])
    wanted = torch.cat([inside, sizes.log()], 1).to(dtype)
    for run in (
        torch_npu.npu_yolo_boxes_encode,
        compiled(torch_npu.npu_yolo_boxes_encode),
    ):
        made = run(anchors, given, stride)
        torch.testing.assert_close(made, wanted, atol=2e-3, rtol=2e-3)


@pytest.mark.parametrize("dtype", [f32, f16])
def test_flags(dtype) -> None:
    boxes = (torch.rand(12, 4) * 90).to(dtype)

    def function(boxes):
        return torch_npu.npu_anchor_response_flags(boxes, [5, 6], [16, 14], 3)

    wanted = torch.zeros(5, 6, 3, dtype=torch.uint8)
    for left, top, right, bottom in boxes.float().tolist():
        row, column = int((top + bottom) / 2 // 14), int((left + right) / 2 // 16)
        if row < 5 and column < 6:
            wanted[row, column] = 1
    for run in (function, compiled(function)):
        assert torch.equal(run(boxes), wanted.flatten())


def test_wrong_arguments() -> None:
    images, rois, boxes = torch.ones(2, 8, 4, 4), torch.ones(2, 5, 3), torch.ones(3, 4)
    for name, told, text in (
        ("npu_ps_roi_pooling", (images, rois, 0.5, 128, 2), "group_size must be 1 to"),
        ("npu_ps_roi_pooling", (images, rois, 0.5, 2, 3), "self must be .n, 12, h, w."),
        ("npu_ps_roi_pooling", (images, rois[:1], 0.5, 2, 2), "rois must be .2, 5"),
        (
            "npu_ps_roi_pooling",
            (images, rois, 0.0, 2, 2),
            "spatial_scale must be above",
        ),
        (
            "npu_yolo_boxes_encode",
            (boxes, boxes, torch.ones(3)),
            "stride must be int32",
        ),
        (
            "npu_yolo_boxes_encode",
            (torch.ones(20481, 4),) * 2 + (torch.ones(20481).int(),),
            "self must have at most 20480 anchors",
        ),
        (
            "npu_anchor_response_flags",
            (boxes, [0, 3], [2, 2], 1),
            "featmap_size must be",
        ),
        ("npu_anchor_response_flags", (boxes, [3, 3], [2, 2], 0), "num_base_anchors"),
    ):
        with pytest.raises(RuntimeError, match=f"{name}: {text}"):
            getattr(torch_npu, name)(*told)
