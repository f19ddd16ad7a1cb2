"""Right calls of operators that join several steps: rotations and caches, quantised
products, and the next step of decoding."""

from __future__ import annotations

from typing import Any

import torch

R = torch.randn


def _bytes(*shape: int) -> torch.Tensor:
    return torch.randint(-9, 9, shape, dtype=torch.int8)


def _rotated(rows: torch.Tensor, **more: Any) -> dict[str, Any]:
    return {
        "x": rows,
        "cos": R(2, 3, 1, 8).half(),
        "sin": R(2, 3, 1, 8).half(),
        "k_cache": _bytes(2, 6, 2, 8),
        "v_cache": _bytes(2, 6, 2, 8),
        "indices": torch.tensor([1, 0], dtype=torch.int32),
        "scale_k": torch.rand(8) * 9,
        "scale_v": torch.rand(8) * 9,
        "size_splits": [24, 16, 16],
        **more,
    }


def _normed() -> dict[str, Any]:
    return {
        "qkv": R(6, 56).half(),
        "q_gamma": R(8).half(),
        "k_gamma": R(8).half(),
        "cos": R(6, 8).half(),
        "sin": R(6, 8).half(),
        "index": torch.tensor([0, 5, -1, 3, 7, 2]),
        "q_out": torch.zeros(6, 24).half(),
        "k_cache": _bytes(3, 4, 4, 4),
        "v_cache": _bytes(3, 4, 4, 4),
        "qkv_size": [2, 3, 7, 8],
        "head_nums": [3, 2, 2],
        "k_scale": torch.rand(2, 8) + 0.1,
        "v_scale": torch.rand(2, 8) + 0.1,
    }


def _added() -> dict[str, Any]:
    return {
        "self": R(4, 6),
        "x1": R(8, 4).to(torch.float8_e4m3fn),
        "x2": R(8, 6).to(torch.float8_e4m3fn),
        "x2_scale": torch.tensor([0.5]),
        "x1_scale": torch.tensor([0.25]),
    }


def _grouped() -> dict[str, Any]:
    return {
        "self": R(2, 4, 6),
        "x": R(5, 4).half(),
        "weight": R(5, 6).half(),
        "group_list": torch.tensor([2, 5]),
    }


def _lines(*shape: int) -> torch.Tensor:
    return torch.randint(0, 9, shape)


def _step(drafts: int) -> dict[str, Any]:
    rows = 3 * (1 + drafts)
    made = {
        "input_tokens": _lines(rows),
        "sampled_token_ids": _lines(3 if drafts else 2, 1 + drafts),
        "input_positions": _lines(rows),
        "seq_lens": _lines(rows),
        "slot_mapping": _lines(rows),
        "block_tables": _lines(3, 9),
        "num_seqs": 3,
        "num_queries": 3 if drafts else 2,
        "block_size": 4,
    }
    if drafts:
        made |= {
            "spec_token": _lines(3, drafts),
            "accepted_num": torch.tensor([0, 2, 1]),
        }
    return made


CALLS: dict[str, dict[str, Any] | list[dict[str, Any]]] = {
    "npu_rope_quant_kvcache": _rotated(R(2, 3, 56).half()),
    "npu_dequant_rope_quant_kvcache": _rotated(
        torch.randint(-99, 99, (2, 3, 56), dtype=torch.int32),
        weight_scale=torch.rand(56) / 99,
    ),
    "npu_qkv_rms_norm_rope_cache": _normed(),
    "npu_qkv_rms_norm_rope_cache_functional": _normed(),
    "npu_dequant_bias": {
        "x": torch.randint(-99, 99, (3, 4), dtype=torch.int32),
        "weight_scale": torch.rand(4),
        "activation_scale": torch.rand(3),
        "bias": R(4),
    },
    "npu_add_quant_matmul": _added(),
    "npu_add_quant_matmul_": _added(),
    "npu_grouped_matmul_add": _grouped(),
    "npu_grouped_matmul_add_": _grouped(),
    "npu_quant_matmul_dequant": {
        "x": R(3, 8).half(),
        "quantized_weight": _bytes(4, 8),
        "weight_scale": torch.rand(4),
    },
    "npu_quant_conv2d": {
        "input": _bytes(1, 4, 5, 5),
        "weight": _bytes(3, 4, 3, 3),
        "scale": torch.rand(3),
        "pads": [1, 1],
    },
    "npu_advance_step_flashattn": [_step(0), _step(2)],
    "npu_sim_exponential_": {"self": R(9)},
    "npu_fused_floyd_attention": {
        "query_ik": R(1, 2, 3, 4, 8).half(),
        "key_ij": R(1, 2, 3, 5, 8).half(),
        "value_ij": R(1, 2, 3, 5, 8).half(),
        "key_jk": R(1, 2, 5, 4, 8).half(),
        "value_jk": R(1, 2, 5, 4, 8).half(),
    },
}
