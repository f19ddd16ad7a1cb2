"""Right calls of operators that are steps of layers, and of slices by masks."""

from __future__ import annotations

from typing import Any

import torch

R = torch.randn
f32 = torch.float32

CALLS: dict[str, dict[str, Any] | list[dict[str, Any]]] = {
    "npu_indexing": {
        "self": R(3, 4),
        "begin": [1, 0],
        "end": [2, 3],
        "strides": [1, 2],
    },
    "npu_ffn": [
        {
            "x": R(4, 8).half(),
            "weight1": R(2, 8, 6).half(),
            "weight2": R(2, 6, 8).half(),
            "activation": "silu",
            "expert_tokens": [1, 3],
        },
        {
            "x": torch.randint(-9, 9, (4, 8), dtype=torch.int8),
            "weight1": torch.randint(-9, 9, (8, 6), dtype=torch.int8),
            "weight2": torch.randint(-9, 9, (6, 8), dtype=torch.int8),
            "activation": "relu",
            "scale": torch.tensor([0.5]),
            "deq_scale1": torch.rand(6),
            "deq_scale2": torch.rand(8),
        },
        {
            "x": R(4, 8).half(),
            "weight1": torch.randint(-9, 9, (8, 6), dtype=torch.int8),
            "weight2": torch.randint(-9, 9, (6, 8), dtype=torch.int8),
            "activation": "relu",
            "antiquant_scale1": torch.rand(6).half(),
            "antiquant_scale2": torch.rand(8).half(),
        },
    ],
    "npu_mhc_pre": {
        "x": R(3, 4, 8).half(),
        "phi": R(24, 32),
        "alpha": torch.tensor([0.5, 0.6, 0.7]),
        "bias": R(24),
        "gamma": R(4, 8),
    },
    "npu_mhc_post": {
        "x": R(3, 4, 8).half(),
        "h_res": R(3, 4, 4),
        "h_out": R(3, 8).half(),
        "h_post": R(3, 4),
    },
    "npu_mhc_sinkhorn": {"x": R(3, 4, 4)},
    "npu_block_sparse_attention": {
        "query": R(2, 2, 9, 8).half(),
        "key": R(2, 1, 200, 8).half(),
        "value": R(2, 1, 200, 8).half(),
        "block_sparse_mask": torch.tensor([[1, 0], [1, 1], [0, 1]], dtype=torch.int8)
        .expand(2, 2, 3, 2)
        .contiguous(),
        "block_shape": [4, 128],
        "q_input_layout": "BNSD",
        "kv_input_layout": "BNSD",
        "scale_value": 0.5,
    },
}
