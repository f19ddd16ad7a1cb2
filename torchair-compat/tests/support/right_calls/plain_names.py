"""Right calls of operators of PyTorch by other names, and of lists and tables of choices."""

from __future__ import annotations

from typing import Any

import torch

R = torch.randn
_MAP = torch.tensor([[1, 0, 1], [0, 1, 1], [1, 0, 0], [0, 0, 1]])
_CONVOLUTION = {
    "bias": None,
    "stride": [1, 1],
    "padding": [0, 1],
    "dilation": [1, 1],
    "groups": 1,
}
_VOLUME = {
    "input": R(1, 2, 4, 5, 5),
    "weight": R(3, 2, 2, 3, 3),
    "bias": None,
    "stride": [1, 1, 1],
    "padding": [0, 1, 0],
    "dilation": [1, 1, 1],
    "groups": 1,
}
_TRANSPOSED = {
    "input": R(1, 2, 5, 5),
    "weight": R(2, 3, 3, 3),
    "bias": None,
    "padding": [0, 1],
    "output_padding": [0, 0],
    "stride": [2, 1],
    "dilation": [1, 1],
    "groups": 1,
}
_FIRST = torch.rand(2, 5) * 4
_BOXES = torch.cat([_FIRST, _FIRST + torch.rand(2, 5) * 4 + 0.5])
_MEANS = {
    f"{what}{place}": 0.1 + place for what in ("means", "stds") for place in range(4)
}


def _list() -> dict[str, Any]:
    return {
        "self": [R(2, 4, 3), R(2, 4, 3)],
        "indices": torch.tensor([1, 3]),
        "updates": R(2, 2, 1, 3),
        "mask": torch.tensor([1, 0], dtype=torch.uint8),
    }


def _states(blocks: int) -> torch.Tensor:
    return (torch.arange(1, blocks + 1).float() / 8).reshape(1, 1, blocks, 1)


CALLS: dict[str, dict[str, Any] | list[dict[str, Any]]] = {
    "npu_transpose": {"self": R(2, 3, 4), "perm": [2, 0, 1]},
    "npu_reshape": {"self": R(2, 6), "shape": [3, 4]},
    "npu_broadcast": {"self": R(3, 1), "size": [2, 3, 4]},
    "npu_slice": {"self": R(3, 4), "offsets": [1, 0], "size": [2, 3]},
    "npu_pad": {"input": R(2, 3), "paddings": [0, 1, 2, 0]},
    "npu_confusion_transpose": {
        "self": R(2, 3, 4, 6),
        "perm": [0, 2, 1, 3],
        "shape": [2, 4, 18],
        "transpose_first": True,
    },
    "npu_max": {"self": R(3, 4), "dim": 1},
    "npu_min": {"self": R(3, 4), "dim": 1},
    "npu_sort_v2": {"self": R(3, 4)},
    "npu_one_hot": {"self": torch.tensor([2, 0, 5]), "depth": 4},
    "npu_sign_bits_pack": {"self": R(14), "size": 2},
    "npu_sign_bits_unpack": {
        "input": torch.tensor([159, 15], dtype=torch.uint8),
        "size": 2,
        "dtype": torch.float32,
    },
    "npu_softmax_cross_entropy_with_logits": {"self": R(3, 4), "labels": R(3, 4)},
    "npu_scaled_masked_softmax": {
        "x": R(2, 3, 4),
        "mask": torch.tensor([True, False, False, True]),
        "scale": 0.5,
    },
    "npu_linear": {"input": R(3, 4), "weight": R(5, 4)},
    "npu_bmmV2": {"self": R(2, 3, 4), "mat2": R(2, 4, 5), "output_sizes": []},
    "npu_conv2d": {"input": R(1, 2, 5, 5), "weight": R(3, 2, 3, 3), **_CONVOLUTION},
    "npu_convolution": {
        "input": R(1, 2, 5, 5),
        "weight": R(3, 2, 3, 3),
        **_CONVOLUTION,
    },
    "npu_conv3d": _VOLUME,
    "npu_conv_transpose2d": _TRANSPOSED,
    "npu_convolution_transpose": _TRANSPOSED,
    **{
        name: {"self": _BOXES, "gtboxes": _BOXES + torch.rand(4, 5)}
        for name in ("npu_giou", "npu_diou", "npu_ciou")
    },
    **{
        name: {"bboxes": _BOXES.t(), "gtboxes": _BOXES.t() + 0.3}
        for name in ("npu_iou", "npu_ptiou")
    },
    "npu_bounding_box_encode": {
        "anchor_box": _BOXES.t(),
        "ground_truth_box": _BOXES.t() + torch.rand(5, 4),
        **_MEANS,
    },
    "npu_bounding_box_decode": {
        "rois": _BOXES.t() + 20,
        "deltas": R(5, 4),
        **_MEANS,
        "max_shape": [99, 99],
        "wh_ratio_clip": 0.1,
    },
    "npu_silu": {"self": R(3, 4)},
    "npu_silu_": {"self": R(3, 4)},
    "npu_mish": {"self": R(3, 4)},
    "npu_scatter_list": _list(),
    "npu_scatter_list_": _list(),
    "npu_moe_token_permute_with_routing_map": {
        "tokens": R(4, 5),
        "routing_map": _MAP.bool(),
        "probs": R(4, 3),
        "num_out_tokens": 6,
    },
    "npu_moe_token_unpermute_with_routing_map": {
        "permuted_tokens": R(6, 5),
        "sorted_indices": torch.tensor([0, 3, 2, 4, 1, 5], dtype=torch.int32),
        "restore_shape": [4, 5],
        "probs": R(4, 3),
        "routing_map": _MAP.bool(),
    },
    "npu_moe_update_expert": [
        {
            "expert_ids": torch.tensor([[0, 1], [2, 0]]),
            "eplb_table": torch.tensor([[2, 4, 0], [1, 5, 0], [2, 3, 1]]).int(),
            "expert_scales": torch.tensor([[0.7, 0.3], [0.9, 0.1]]),
            "pruning_threshold": torch.tensor([0.1, 0.2]),
            "local_rank_id": 3,
            "world_size": 4,
        },
        {
            "expert_ids": torch.tensor([[0, 1], [2, 0]]),
            "eplb_table": torch.tensor([[2, 4, 0], [1, 5, 0], [2, 3, 1]]).int(),
            "balance_mode": 1,
        },
    ],
    "npu_quant_fusion_attention": {
        "query": R(1, 2, 130, 8).to(torch.float8_e4m3fn),
        "key": R(1, 2, 5, 8).to(torch.float8_e4m3fn),
        "value": R(1, 2, 5, 8).to(torch.float8_e4m3fn),
        "head_num": 2,
        "input_layout": "BNSD",
        "d_scale_q": _states(2).expand(1, 2, 2, 1),
        "d_scale_k": _states(1).expand(1, 2, 1, 1),
        "d_scale_v": _states(1).expand(1, 2, 1, 1),
    },
    "npu_stride_copy": {
        "self": R(3, 4),
        "shape": [2, 3],
        "stride": [4, 1],
        "storage_offset": 1,
    },
    "npu_view_copy": {"self": R(3, 4), "other": R(4), "non_blocking": False},
}
