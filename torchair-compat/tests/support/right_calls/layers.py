"""Right calls of operators that are steps of layers, of sequences, and of slices by
masks."""

from __future__ import annotations

from typing import Any

import torch

R = torch.randn
f32 = torch.float32


def _int32(values: list[Any]) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int32)


_CONVOLUTION = {
    "x": R(9, 4).half(),
    "weight": R(3, 4).half(),
    "conv_states": R(8, 3, 4).half(),
    "query_start_loc": _int32([0, 4, 9]),
    "cache_indices": _int32([[4, 0], [1, 2]]),
    "num_accepted_tokens": _int32([1, 2]),
    "num_computed_tokens": _int32([1, 0]),
    "conv_mode": "pangu",
    "block_size": 4,
    "block_idx_first_scheduled_token": _int32([0, 0]),
    "block_idx_last_scheduled_token": _int32([1, 1]),
    "initial_state_idx": _int32([0, 0]),
}
_LEFT_OUT = {
    "x": R(9, 4).half(),
    "weight": R(3, 4).half(),
    "conv_states": R(8, 3, 4).half(),
    "query_start_loc": _int32([0, 4, 9]),
    "cache_indices": _int32([2, -1]),
}
_TOKENS = {"query": R(4, 2, 8), "key": R(6, 1, 8), "value": R(6, 1, 5)}
_PROJECTIONS = ("query", "key", "value", "out_proj")

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
    "npu_ring_attention_update": {
        "prev_attn_out": R(3, 2, 8),
        "cur_attn_out": R(3, 2, 8),
        **{
            f"{which}_softmax_{what}": torch.rand(2, 2, 3, 1).expand(2, 2, 3, 8) + 0.1
            for which in ("prev", "cur")
            for what in ("max", "sum")
        },
    },
    "npu_moe_gating_top_k_softmax_v2": {"x": R(3, 8), "k": 2},
    "npu_gather_sparse_index": {"input": R(5, 3), "index": torch.tensor([[4, 0]])},
    "npu_attn_softmax_": {"self": R(3, 5)},
    "npu_masked_softmax_with_rel_pos_bias": {
        "x": R(4, 3, 5, 5),
        "atten_mask": R(2, 5, 5),
        "relative_pos_bias": R(3, 5, 5),
    },
    **{
        name: {
            "self": R(3, 8),
            "x": R(3, 6),
            "weight_b": R(2, 2, 8, 4),
            "weight_a": R(2, 2, 4, 6),
            "indices": torch.tensor([1, 0, 1]),
            "scale": 0.5,
        }
        for name in ("npu_batch_gather_matmul", "npu_batch_gather_matmul_")
    },
    "npu_paged_cache_load": {
        "key_cache": R(4, 2, 1, 8),
        "value_cache": R(4, 2, 1, 6),
        "block_table": torch.tensor([[3, 0], [1, 2]], dtype=torch.int32),
        "context_lens": torch.tensor([3, 2], dtype=torch.int32),
    },
    "_npu_paged_attention_v2": {
        "query": R(2, 2, 8).half(),
        "key_cache": R(4, 16, 1, 8).half(),
        "value_cache": R(4, 16, 1, 6).half(),
        "block_table": torch.tensor([[3, 0], [1, 2]], dtype=torch.int32),
        "context_lens": [20, 9],
        "num_heads": 2,
        "num_kv_heads": 1,
        "mask": R(2, 1, 32).half(),
        "mask_type": 2,
    },
    "_npu_flash_attention_v2": {
        "query": R(5, 2, 8).half(),
        "key": R(5, 1, 8).half(),
        "value": R(5, 1, 6).half(),
        "seq_len": [2, 3],
        "mask": R(2, 3, 3).half(),
        "num_heads": 2,
        "num_kv_heads": 1,
    },
    "_npu_flash_attention_prefix_v2": {
        "query": R(4, 2, 8).half(),
        "key_cache": R(4, 4, 8).half(),
        "value_cache": R(4, 4, 8).half(),
        "block_table": torch.tensor([[3, 0], [1, 2]], dtype=torch.int32),
        "mask": R(4, 4).half(),
        "seq_len": [1, 3],
        "context_lens": [7, 6],
        "slopes": torch.tensor([0.5, -0.25]),
        "mask_type": 4,
        "num_heads": 2,
        "num_kv_heads": 1,
    },
    "npu_multi_head_latent_attention": {
        "q_nope": R(2, 2, 16).half(),
        "q_rope": R(2, 2, 8).half(),
        "ctkv": R(4, 4, 1, 16).half(),
        "k_rope": R(4, 4, 1, 8).half(),
        "block_tables": torch.tensor([[3, 0], [1, 2]], dtype=torch.int32),
        "context_lens": [6, 3],
        "q_headnum": 2,
        "qk_scale": 0.3,
        "kv_headnum": 1,
    },
    "_npu_quantize_per_tensor": {
        "x": R(2, 3, 4),
        "scale": torch.rand(3, 4) / 9 + 0.01,
        "zero_point": torch.randint(-5, 5, (4,), dtype=torch.int8),
        "y": torch.zeros(2, 3, 4, dtype=torch.int8),
    },
    "npu_masked_causal_conv1d": {
        "input": R(5, 2, 4).half(),
        "weight": R(3, 4).half(),
        "mask": torch.eye(2, 5).bool(),
    },
    "npu_fused_causal_conv1d": [_CONVOLUTION, _LEFT_OUT],
    "npu_fused_causal_conv1d_v2": [_CONVOLUTION, _LEFT_OUT],
    "npu_nsa_compress": {
        "input": R(10, 2, 4).half(),
        "weight": R(4, 2).half(),
        "compress_block_size": 4,
        "compress_stride": 2,
        "actual_seq_len": [4, 10],
    },
    "npu_nsa_compress_infer": {
        "input": R(3, 4, 2, 5).half(),
        "weight": R(4, 2).half(),
        "slot_mapping": _int32([1, 0]),
        "compress_block_size": 4,
        "compress_stride": 2,
        "page_block_size": 4,
        "block_table": _int32([[2, 1], [0, -1]]),
        "actual_seq_len": [6, 4],
        "cache": torch.zeros(3, 2, 5).half(),
    },
    "npu_nsa_compress_attention": {
        **_TOKENS,
        "scale_value": 0.5,
        "head_num": 2,
        "compress_block_size": 4,
        "compress_stride": 2,
        "select_block_size": 4,
        "select_block_count": 2,
        "actual_seq_qlen": [1, 4],
        "actual_cmp_seq_kvlen": [2, 6],
        "actual_sel_seq_kvlen": [2, 5],
    },
    "npu_nsa_compress_attention_infer": {
        "query": R(2, 4, 6),
        "key": R(3, 4, 2, 6),
        "value": R(3, 4, 2, 5),
        "scale_value": 0.5,
        "head_num": 4,
        "key_value_head_num": 2,
        "select_block_size": 4,
        "select_block_count": 2,
        "page_block_size": 4,
        "compress_block_size": 4,
        "compress_stride": 2,
        "block_table": _int32([[2, 1], [0, -1]]),
        "actual_cmp_seq_kvlen": [6, 4],
    },
    "npu_nsa_select_attention": {
        **_TOKENS,
        "topk_indices": _int32([[[0]], [[1]], [[0]], [[1]]]),
        "scale_value": 0.5,
        "head_num": 2,
        "select_block_size": 2,
        "select_block_count": 1,
        "actual_seq_qlen": [1, 4],
        "actual_seq_kvlen": [2, 6],
    },
    "npu_nsa_select_attention_infer": {
        "query": R(2, 1, 4, 6),
        "key": R(3, 4, 2, 6),
        "value": R(3, 4, 2, 5),
        "topk_indices": _int32([[[1], [0]], [[0], [0]]]),
        "scale_value": 0.5,
        "head_num": 4,
        "key_value_head_num": 2,
        "select_block_size": 2,
        "select_block_count": 1,
        "page_block_size": 4,
        "block_table": _int32([[2, 1], [0, -1]]),
        "actual_seq_kvlen": [6, 4],
    },
    "npu_quant_matmul_gelu": {
        "x1": torch.randint(-9, 9, (4, 8), dtype=torch.int8),
        "x2": torch.randint(-9, 9, (8, 6), dtype=torch.int8),
        "x1_scale": torch.rand(4) / 99,
        "x2_scale": torch.rand(6) / 99,
    },
    "npu_quant_matmul_reduce_sum": {
        "x1": torch.randint(-9, 9, (2, 4, 8), dtype=torch.int8),
        "x2": torch.randint(-9, 9, (2, 8, 6), dtype=torch.int8),
        "x1_scale": torch.rand(2, 4),
        "x2_scale": torch.rand(6).bfloat16(),
    },
    "npu_lstm": {
        "input": R(3, 2, 4),
        "weight": R(9, 20) / 3,
        "bias": R(20),
        "seq_mask": torch.zeros(1),
        "h": R(2, 5),
        "c": R(2, 5),
        "has_biases": True,
        "num_layers": 1,
        "dropout": 0.0,
        "train": False,
        "bidirectional": False,
        "batch_first": False,
        "flag_seq": False,
        "direction": False,
    },
    "npu_lstm_cell": {
        "input": R(2, 4),
        "w_ih": R(4, 20) / 3,
        "w_hh": R(5, 20) / 3,
        "h": R(2, 5),
        "c": R(2, 5),
        "b_ih": R(20),
        "b_hh": R(20),
    },
    "npu_gru": {
        "input": R(3, 2, 4),
        "hx": R(2, 5),
        "weight_input": R(4, 15) / 3,
        "weight_hidden": R(5, 15) / 3,
        "bias_input": R(15),
        "bias_hidden": R(15),
        "seq_length": torch.zeros(1, dtype=torch.int32),
        "has_biases": True,
        "num_layers": 1,
        "dropout": 0.0,
        "train": False,
        "bidirectional": False,
        "batch_first": False,
    },
    "npu_multi_head_attention": {
        **{name: R(32, 256).half() for name in ("query", "key", "value")},
        **{f"{name}_weight": R(256, 256).half() / 16 for name in _PROJECTIONS},
        **{f"{name}_bias": R(256).half() for name in _PROJECTIONS},
        "attn_mask": R(2, 16, 16, 16).half(),
        "dropout_mask": None,
        "attn_head_num": 16,
        "attn_dim_per_head": 16,
        "src_len": 16,
        "tgt_len": 16,
        "dropout_prob": 0.0,
        "softmax_use_float": True,
    },
}
