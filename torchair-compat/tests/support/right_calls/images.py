"""Right calls of operators of images, boxes and ranges."""

from __future__ import annotations

from typing import Any

import torch

R = torch.randn
_ROTATED = torch.tensor([1.0, 2, 5, 7, 30, 0, 1, 9, 4, -20]).view(1, 2, 5).mT
_SPREAD = R(4, 6)
# Boxes of which many overlap.
_CORNER = torch.rand(60, 2) * 24
_BOXES = torch.cat([_CORNER, _CORNER + 3 + torch.rand(60, 2) * 5], 1)
_SCORES = torch.rand(60) / 2
_TURNED = {
    "self": torch.cat([_CORNER, _BOXES[:, 2:] - _CORNER, _SCORES.view(-1, 1) * 90], 1),
    "scores": _SCORES,
    "iou_threshold": 0.1,
    "scores_threshold": 0.1,
}
_BATCH = {
    "self": _BOXES.view(2, 30, 1, 4),
    "scores": _SCORES.view(2, 30, 1),
    "score_threshold": 0.1,
    "iou_threshold": 0.1,
    "max_size_per_class": 30,
    "max_total_size": 30,
}

CALLS: dict[str, Any] = {
    "npu_roi_align": {
        "self": R(2, 3, 6, 7),
        "rois": torch.tensor([[0, 1.0, 2, 9, 8], [1, 0, 3, 4, 11]]),
        "spatial_scale": 0.5,
        "pooled_height": 2,
        "pooled_width": 3,
        "sample_num": 2,
        "roi_end_mode": 0,
    },
    "npu_nms_v4": {
        "self": _BOXES,
        "scores": _SCORES,
        "max_output_size": 4,
        "iou_threshold": torch.tensor(0.4),
        "scores_threshold": torch.tensor(0.1),
    },
    "npu_nms_rotated": [_TURNED, {**_TURNED, "max_output_size": 3}],
    "npu_nms_with_mask": {
        "input": torch.cat([_BOXES, _SCORES.view(-1, 1)], 1),
        "iou_threshold": 0.1,
    },
    "npu_batch_nms": [_BATCH, {**_BATCH, "max_size_per_class": 3}],
    "npu_ps_roi_pooling": {
        "self": R(2, 12, 6, 7),
        "rois": torch.tensor([0.0, 1, 2, 9, 8, 1, 0, 3, 4, 11]).view(2, 5, 1),
        "spatial_scale": 0.5,
        "group_size": 2,
        "output_dim": 3,
    },
    "npu_yolo_boxes_encode": {
        "self": _BOXES,
        "gt_bboxes": _BOXES + torch.rand(60, 4),
        "stride": torch.full((60,), 8, dtype=torch.int32),
    },
    "npu_anchor_response_flags": {
        "self": _BOXES,
        "featmap_size": [6, 5],
        "stride": [3, 4],
        "num_base_anchors": 2,
    },
    "npu_deformable_conv2d": {
        "input": R(1, 4, 6, 5),
        "weight": R(2, 4, 3, 2),
        "offset": R(1, 18, 4, 4),
        "bias": R(2),
        "kernel_size": [3, 2],
        "stride": [1, 1, 1, 1],
        "padding": [0, 0, 0, 0],
    },
    "npu_rotated_box_encode": {
        "self": _ROTATED,
        "gt_bboxes": _ROTATED + 1,
        "weight": torch.rand(5) + 1,
    },
    "npu_rotated_box_decode": {
        "self": _ROTATED,
        "deltas": torch.rand(1, 5, 2),
        "weight": torch.rand(5) + 1,
    },
    "npu_rotated_overlaps": {"self": _ROTATED.mT, "query_boxes": _ROTATED.mT + 1},
    "npu_rotated_iou": {"self": _ROTATED.mT, "query_boxes": _ROTATED.mT + 1},
    "npu_masked_fill_range": {
        "self": R(2, 5),
        "start": torch.tensor([[0, 2]]),
        "end": torch.tensor([[2, 3]]),
        "value": R(1),
    },
    "npu_normalize_batch": {"self": R(2, 3, 5), "seq_len": torch.tensor([3, 5])},
    "npu_ifmr": {
        "data": _SPREAD,
        "data_min": _SPREAD.min().view(1),
        "data_max": _SPREAD.max().view(1),
        "cumsum": torch.histc(_SPREAD, 8).cumsum(0).int(),
        "min_percentile": 0.9,
        "max_percentile": 0.9,
        "search_start": 0.7,
        "search_end": 1.3,
        "search_step": 0.05,
        "with_offset": True,
    },
}
