"""Right calls of operators of images, boxes and ranges."""

from __future__ import annotations

from typing import Any

import torch

R = torch.randn
_ROTATED = torch.tensor([1.0, 2, 5, 7, 30, 0, 1, 9, 4, -20]).view(1, 2, 5).mT
_SPREAD = R(4, 6)

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
