"""A right call of each operator of torch_npu, and wrong values for its arguments."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import torch

import torch_npu
from right_calls.images import CALLS as _OF_IMAGES
from right_calls.layers import CALLS as _OF_LAYERS
from right_calls.plain_names import CALLS as _OF_PLAIN_NAMES
from right_calls.small_floats import CALLS as _MORE
from right_calls.steps import CALLS as _OF_STEPS
from torchair._impl.operators.definition import COMPOSITIONS

bf16, f16, i8 = torch.bfloat16, torch.float16, torch.int8
R = torch.randn


def ints(*shape: int, dtype: torch.dtype = torch.int8) -> torch.Tensor:
    return torch.randint(-5, 5, shape, dtype=dtype)


def _attention(**options: Any) -> dict[str, Any]:
    parts = {name: R(2, 4, 6, 16) for name in ("query", "key", "value")}
    return {**parts, "input_layout": "BNSD", **options}


def _masked(**options: Any) -> dict[str, Any]:
    """An attention with a mask, and with more rows than one."""
    return _attention(atten_mask=torch.zeros(6, 6, dtype=torch.bool), **options)


def _latent() -> dict[str, Any]:
    weights = {
        "weight_dq": R(48, 32) / 7,
        "weight_uq_qr": R(32, 3 * 40) / 5,
        "weight_uk": R(3, 8, 64) / 3,
        "weight_dkv_kr": R(48, 96) / 7,
        "rmsnorm_gamma_cq": R(32),
        "rmsnorm_gamma_ckv": R(64),
        "rope_sin": R(6, 32),
        "rope_cos": R(6, 32),
        "kv_cache": torch.zeros(5, 2, 1, 64),
        "kr_cache": torch.zeros(5, 2, 1, 32),
    }
    made = {name: value.to(bf16) for name, value in weights.items()}
    return {
        "token_x": R(6, 48).to(bf16),
        **made,
        "cache_index": torch.tensor([0, 5, 9, 3, 7, 2]),
    }


def _third_prolog() -> list[dict[str, Any]]:
    """One with plain caches, and one whose rows are bytes in pages of sequences."""
    plain = {**_latent(), "query_norm_flag": True}
    small = {
        **_latent(),
        "weight_uq_qr": ints(32, 3 * 40),
        "dequant_scale_w_uq_qr": torch.rand(1, 3 * 40) / 99,
        "kv_cache": torch.zeros(5, 2, 1, 64 + 2 * 32 + 4 * 4, dtype=i8),
        "cache_index": torch.tensor([1, 3, 0, 2]),
        "actual_seq_len": torch.tensor([2, 6], dtype=torch.int32),
        "k_nope_clip_alpha": torch.ones(1),
        "cache_mode": "PA_BLK_BSND",
        "weight_quant_mode": 1,
        "kv_cache_quant_mode": 3,
        "ckvkr_repo_mode": 1,
        "quant_scale_repo_mode": 1,
        "tile_size": 16,
    }
    return [plain, small]


def _choices() -> dict[str, Any]:
    """Queries and keys, and what says where their sequences end."""
    return {
        "query": R(2, 3, 4, 8),
        "key": R(2, 9, 1, 8),
        "actual_seq_lengths_query": torch.tensor([3, 3]),
    }


def _indexed() -> dict[str, Any]:
    lengths = {"actual_seq_lengths_key": torch.tensor([9, 8])}
    return {**_choices(), **lengths, "weights": R(2, 3, 4), "sparse_count": 3}


def _sparse() -> dict[str, Any]:
    given = _choices()
    return {
        **given,
        "value": R(2, 9, 1, 8),
        "sparse_indices": torch.tensor([0, 3, 5, 1], dtype=torch.int32).expand(
            2, 3, 1, 4
        ),
        "scale_value": 0.5,
        "actual_seq_lengths_kv": torch.tensor([9, 8]),
        "query_rope": R(2, 3, 4, 2),
        "key_rope": R(2, 9, 1, 2),
        "sinks": R(4),
    }


def _sparse_bytes() -> dict[str, Any]:
    given = _sparse()
    for name in ("query_rope", "key_rope"):
        del given[name]
    # Eight elements, two rotary ones of two bytes, and scales of 1.0.
    row = torch.cat([ints(2, 9, 1, 12) % 3, torch.ones(2, 9, 1, 2).view(i8)], -1)
    return {
        **given,
        "query": R(2, 3, 4, 10).half(),
        "key": row,
        "value": row.flip(1).contiguous(),
        "key_quant_mode": 2,
        "value_quant_mode": 2,
        "tile_size": 4,
        "rope_head_dim": 2,
    }


def _recurrent() -> dict[str, Any]:
    rows = torch.nn.functional.normalize(R(2, 4, 2, 8), dim=-1)
    return {
        "query": rows[0],
        "key": rows[1],
        "value": R(4, 4, 6),
        "state": R(5, 4, 6, 8),
        "beta": torch.rand(4, 4),
        "g": -torch.rand(4, 4),
        "actual_seq_lengths": torch.tensor([1, 3]),
        "ssm_state_indices": torch.tensor([3, 0, 2, 1]),
    }


def _chunks() -> dict[str, Any]:
    given = _recurrent()
    state = given.pop("state")
    del given["ssm_state_indices"]
    return {**given, "initial_state": state[:2]}


def _pages() -> dict[str, Any]:
    return {
        "key_cache": R(5, 4, 2, 16),
        "value_cache": R(5, 4, 2, 16),
        "block_tables": torch.tensor([[3, 1], [0, 4]], dtype=torch.int32),
        "seq_lens": torch.tensor([5, 3]),
        "key": torch.zeros(8, 2, 16),
        "value": torch.zeros(8, 2, 16),
    }


def _boosted(**more: Any) -> dict[str, Any]:
    """Tokens of two sequences and pages of their keys."""
    return {
        "query": R(5, 4, 16),
        "key_cache": R(5, 4, 2, 16),
        "value_cache": R(5, 4, 2, 16),
        "num_kv_heads": 2,
        "num_heads": 4,
        "scale_value": 0.5,
        "block_table": torch.tensor([[3, 1], [0, 4]], dtype=torch.int32),
        "context_lens": torch.tensor([6, 4]),
        "out": torch.zeros(5, 4, 16),
        **more,
    }


def _packed(**more: Any) -> dict[str, Any]:
    return {
        "query": R(5, 4, 16),
        "key": R(5, 2, 16),
        "value": R(5, 2, 16),
        "seq_len": torch.tensor([3, 2]),
        "scale_value": 0.5,
        "num_heads": 4,
        "num_kv_heads": 2,
        "out": torch.zeros(5, 4, 16),
        **more,
    }


def _cached_parts() -> dict[str, Any]:
    return {
        "kv": R(1, 1, 1, 12),
        "gamma": R(8),
        "cos": R(1, 1, 1, 4),
        "sin": R(1, 1, 1, 4),
        "index": torch.zeros(1, 1).long(),
        "k_cache": torch.zeros(1, 1, 2, 4),
        "ckv_cache": torch.zeros(1, 1, 2, 8),
    }


_ROWS = {name: R(4, 16).half() for name in ("x1", "x2")}
_NORM = {**_ROWS, "gamma": R(16).half()}
_EXPERTS = torch.tensor([[0, 2], [1, 3], [2, 0], [3, 1]], dtype=torch.int32)
_SCATTER = {"self": R(8, 4), "indices": torch.tensor([[1], [2]]), "updates": R(2, 4)}
_UPDATE = {
    "self": R(2, 8, 4),
    "indices": torch.tensor([1, 2]),
    "updates": R(2, 1, 4),
    "axis": -2,
}
_QUANT_SCATTER = {
    "self": ints(2, 8, 32),
    "indices": torch.tensor([0, 1], dtype=torch.int32),
    "updates": R(2, 2, 32).to(bf16),
    "quant_scales": (R(32).abs() + 1).to(bf16),
    "axis": -2,
    "quant_axis": -1,
}

# A call, or several: an argument counts if it changes one of them.
CALLS: dict[str, dict[str, Any] | list[dict[str, Any]]] = {
    "npu_dequant_swiglu_quant": [
        {
            "x": ints(4, 16, dtype=torch.int32),
            "weight_scale": R(1, 16).abs() + 0.5,
            **more,
        }
        for more in ({}, {"swiglu_mode": 1, "clamp_limit": 0.5})
    ],
    "npu_swiglu": {"input": R(4, 16)},
    "npu_dynamic_quant": {"input": R(4, 16).half()},
    "npu_quantize": {
        "input": R(4, 16),
        "scales": R(16).abs() + 0.5,
        "zero_points": ints(16, dtype=torch.int32),
        "dtype": torch.qint8,
        "axis": 1,
    },
    "npu_rms_norm": {"self": R(4, 16), "gamma": R(16)},
    "npu_add_rms_norm": _NORM,
    "npu_add_rms_norm_cast": _NORM,
    "npu_add_rms_norm_quant": {
        **_NORM,
        "scales1": R(16).abs() + 0.5,
        "zero_points1": ints(16, dtype=torch.int32),
    },
    "npu_add_rms_norm_dynamic_quant": _NORM,
    "npu_rotary_mul": {"self": R(2, 3, 4, 8), "r1": R(2, 3, 1, 8), "r2": R(2, 3, 1, 8)},
    "npu_convert_weight_to_int4pack": {"weight": ints(4, 16, dtype=torch.int32)},
    "npu_weight_quant_batchmatmul": {
        "x": R(4, 16).half(),
        "weight": ints(16, 8),
        "antiquant_scale": R(8).half(),
    },
    "npu_transpose_batchmatmul": {"input": R(4, 2, 8), "weight": R(4, 8, 16)},
    "npu_gelu": {"self": R(4, 8)},
    "npu_fast_gelu": {"self": R(4, 8)},
    "npu_quant_matmul": {"x1": ints(4, 8), "x2": ints(8, 16), "scale": R(16)},
    "npu_trans_quant_param": {"scale": R(3)},
    "npu_fused_infer_attention_score": _masked(num_heads=4),
    "npu_fused_infer_attention_score_v2": _masked(num_query_heads=4),
    "npu_prompt_flash_attention": _masked(num_heads=4),
    "npu_incre_flash_attention": _attention(query=R(2, 4, 1, 16), num_heads=4),
    "npu_moe_gating_top_k_softmax": {"x": R(4, 8), "k": 2},
    "npu_moe_gating_top_k": {"x": R(4, 16), "k": 2, "norm_type": 1},
    "npu_moe_init_routing": {
        "x": R(4, 8),
        "row_idx": torch.arange(8, dtype=torch.int32).view(2, 4).t().contiguous(),
        "expert_idx": _EXPERTS,
        "active_num": 4,
    },
    "npu_moe_init_routing_v2": {"x": R(4, 8), "expert_idx": _EXPERTS, "expert_num": 4},
    "npu_moe_finalize_routing": {
        "expanded_permuted_rows": R(8, 16),
        "skip1": R(4, 16),
        "skip2": None,
        "bias": R(4, 16),
        "scales": R(4, 2),
        "expanded_src_to_dst_row": torch.arange(8, dtype=torch.int32),
        "export_for_source_row": _EXPERTS,
    },
    "npu_moe_compute_expert_tokens": {
        "sorted_expert_for_source_row": torch.tensor([0, 0, 1, 3], dtype=torch.int32),
        "num_expert": 4,
    },
    "npu_moe_token_permute": {"tokens": R(4, 8), "indices": _EXPERTS},
    "npu_moe_token_unpermute": {
        "permuted_tokens": R(8, 8),
        "sorted_indices": torch.arange(8, dtype=torch.int32),
        "probs": R(4, 2),
    },
    "scatter_update": _UPDATE,
    "scatter_update_": _UPDATE,
    "npu_scatter_nd_update": _SCATTER,
    "npu_scatter_nd_update_": _SCATTER,
    "npu_scatter_pa_kv_cache": {
        "key": R(3, 2, 16),
        "value": R(3, 2, 16),
        "key_cache": torch.zeros(4, 4, 2, 16),
        "value_cache": torch.zeros(4, 4, 2, 16),
        "slot_mapping": torch.tensor([0, 5, 9], dtype=torch.int32),
        "cache_mode": "Norm",
    },
    "npu_group_quant": {
        "x": R(4, 16),
        "scale": R(2, 16).abs() + 1,
        "group_index": torch.tensor([2, 4], dtype=torch.int32),
    },
    "npu_quant_scatter": _QUANT_SCATTER,
    "npu_quant_scatter_": _QUANT_SCATTER,
    "npu_apply_rotary_pos_emb": {
        "query": R(2, 3, 4, 16),
        "key": R(2, 3, 1, 16),
        "cos": R(2, 3, 1, 16),
        "sin": R(2, 3, 1, 16),
    },
    "npu_kv_rmsnorm_rope_cache": _cached_parts(),
    "npu_kv_rmsnorm_rope_cache_v2": _cached_parts(),
    "npu_kv_rmsnorm_rope_cache_v2_functional": _cached_parts(),
    "npu_mla_prolog": _latent(),
    "npu_grouped_matmul": {"x": [R(4, 8)], "weight": [R(8, 6)]},
    "npu_grouped_matmul_swiglu_quant_v2": {
        "x": ints(4, 8),
        "weight": [ints(2, 8, 16)],
        "weight_scale": [R(2, 16)],
        "x_scale": torch.rand(4),
        "group_list": torch.tensor([1, 3]),
    },
    "npu_grouped_matmul_swiglu_quant": {
        "x": ints(4, 8),
        "weight": ints(2, 8, 16),
        "group_list": torch.tensor([1, 3]),
        "weight_scale": R(2, 16),
        "x_scale": torch.rand(4),
    },
    "npu_grouped_matmul_finalize_routing": {
        "x": ints(4, 8),
        "w": ints(2, 8, 16),
        "group_list": torch.tensor([1, 3]),
        "scale": R(2, 16),
        "pertoken_scale": torch.rand(4),
        "logit": R(4),
        "row_index": torch.tensor([1, 0, 1, 2]),
        "shared_input": R(2, 16).to(bf16),
    },
    "npu_quant_grouped_matmul_dequant": {
        "x": R(4, 8).half(),
        "quantized_weight": ints(2, 16, 8),
        "weight_scale": R(2, 16),
        "group_list": torch.tensor([1, 4]),
    },
    "npu_groupmatmul_add_fp32": {
        "x": R(4, 8).half(),
        "dy": R(4, 6).half(),
        "group_list": torch.tensor([1, 4]),
        "grad": R(2, 8, 6),
    },
    "npu_interleave_rope": {
        "x": R(2, 3, 4, 8),
        "cos": R(2, 1, 4, 8),
        "sin": R(2, 1, 4, 8),
    },
    "npu_mrope": {
        "positions": torch.randint(0, 7, (3, 5)),
        "query": R(5, 32),
        "key": R(5, 16),
        "cos_sin_cache": R(7, 12),
        "head_size": 16,
        "mrope_section": [2, 2, 2],
        "cache_mode": "interleave",
    },
    "npu_moe_init_routing_group_quant": {
        "x": R(4, 256),
        "expert_idx": _EXPERTS,
        "expert_num": 4,
        "quant_mode": 5,
    },
    "npu_moe_init_routing_quant": [
        {
            "x": R(4, 8),
            "expert_idx": _EXPERTS,
            "active_num": 0,
            "expert_num": 4,
            "expert_tokens_num_mode": 2,
        },
        {
            "x": R(4, 8),
            "expert_idx": _EXPERTS,
            "expert_num": 4,
            "expert_capacity": 2,
            "drop_pad_mode": 1,
        },
    ],
    "npu_moe_re_routing": {
        "tokens": R(6, 4),
        "expert_token_num_per_rank": torch.tensor([[2, 1], [1, 2]], dtype=torch.int32),
    },
    "npu_lightning_indexer": _indexed(),
    "npu_quant_lightning_indexer": {
        **_indexed(),
        "query": ints(2, 3, 4, 8),
        "key": ints(2, 9, 1, 8),
        "query_dequant_scale": torch.rand(2, 3, 4),
        "key_dequant_scale": torch.rand(2, 9, 1),
        "query_quant_mode": 0,
        "key_quant_mode": 0,
    },
    "npu_gather_selection_kv_cache": {
        "selection_k_rope": torch.zeros(2, 4, 2),
        "selection_kv_cache": torch.zeros(2, 4, 8),
        "selection_kv_block_table": torch.tensor([[1], [0]], dtype=torch.int32),
        "selection_kv_block_status": torch.full((2, 1, 4), -1, dtype=torch.int32),
        "selection_topk_indices": torch.tensor([[[1, 0, 3]], [[2, 1, -1]]]).int(),
        "full_k_rope": R(3, 4, 2),
        "full_kv_cache": R(3, 4, 8),
        "full_kv_block_table": torch.tensor([[2, 1], [0, 1]], dtype=torch.int32),
        "full_kv_actual_seq": torch.tensor([5, 8], dtype=torch.int32),
        "full_q_actual_seq": torch.tensor([1, 1], dtype=torch.int32),
        "selection_topk_block_size": 1,
    },
    "npu_sparse_flash_attention": _sparse(),
    "npu_kv_quant_sparse_flash_attention": _sparse_bytes(),
    "npu_mla_prolog_v2": _latent(),
    "npu_mla_prolog_v3": _third_prolog(),
    "npu_mla_prolog_v3_functional": _third_prolog(),
    "npu_attention_update": {
        "lse": [R(4), R(4)],
        "local_out": [R(4, 8), R(4, 8)],
        "update_type": 1,
    },
    "npu_gather_pa_kv_cache": _pages(),
    "npu_gather_pa_kv_cache_functional": _pages(),
    "npu_scatter_pa_cache": {
        "key": R(3, 2, 16),
        "key_cache": torch.zeros(4, 4, 2, 16),
        "slot_mapping": torch.tensor([0, 5, 9], dtype=torch.int32),
    },
    "npu_recurrent_gated_delta_rule": _recurrent(),
    "npu_recurrent_gated_delta_rule_functional": _recurrent(),
    "npu_chunk_gated_delta_rule": _chunks(),
    "npu_recompute_w_u_fwd": {
        "k": R(1, 2, 6, 8),
        "v": R(1, 4, 6, 5),
        "beta": torch.rand(1, 4, 6),
        "A": R(1, 4, 6, 4),
        "chunk_size": 4,
    },
    "npu_fusion_attention": _masked(head_num=4, keep_prob=0.5, seed=5),
    "npu_fusion_attention_v2": _masked(head_num=4, keep_prob=0.5, seed=5),
    "npu_fusion_attention_v3": _masked(head_num=4),
    "npu_ring_mla": {
        "q_nope": R(5, 4, 8),
        "q_rope": R(5, 4, 2),
        "k_nope": R(5, 2, 8),
        "k_rope": R(5, 2, 2),
        "value": R(5, 2, 8),
        "mask": torch.ones(8, 8),
        "seqlen": torch.tensor([3, 2]),
        "head_num": 4,
        "kv_head_num": 2,
        "pre_out": R(5, 4, 8),
        "prev_lse": R(4, 5),
        "calc_type": "calc_type_default",
        "mask_type": "mask_type_triu",
    },
    "_npu_matmul_add_fp32": {
        "x": R(4, 3).half(),
        "weight": R(4, 5).half(),
        "C": R(3, 5),
    },
    "_npu_reshape_and_cache": {
        "key": R(3, 2, 16),
        "value": R(3, 2, 16),
        "key_cache": torch.zeros(4, 4, 2, 16),
        "value_cache": torch.zeros(4, 4, 2, 16),
        "slot_indices": torch.tensor([0, 5, 9]),
    },
    "_npu_reshape_and_cache_siso": {
        "key": R(3, 2, 16),
        "key_cache": torch.zeros(4, 4, 2, 16),
        "slot_indices": torch.tensor([0, 5, 9]),
    },
    "_npu_rotary_embedding": {
        "positions": torch.tensor([3, 0, 6]),
        "query": R(3, 32),
        "key": R(3, 16),
        "head_size": 16,
        "cos_sin_cache": R(7, 16),
        "is_neox_style": True,
    },
    "_npu_paged_attention": _boosted(query=R(2, 4, 16), out=torch.zeros(2, 4, 16)),
    "_npu_paged_attention_mla": {
        "query": R(2, 4, 16),
        "key_cache": R(5, 4, 2, 16),
        "num_kv_heads": 2,
        "num_heads": 4,
        "scale_value": 0.5,
        "block_table": torch.tensor([[3, 1], [0, 4]], dtype=torch.int32),
        "context_lens": torch.tensor([6, 4]),
        "mla_vheadsize": 8,
        "out": torch.zeros(2, 4, 8),
    },
    "_npu_paged_attention_quant": {
        "query": ints(2, 4, 16, dtype=torch.int8),
        "key_cache": ints(5, 4, 2, 16, dtype=torch.int8),
        "value_cache": ints(5, 4, 2, 16, dtype=torch.int8),
        "num_kv_heads": 2,
        "num_heads": 4,
        "scale_value": 0.5,
        "block_table": torch.tensor([[3, 1], [0, 4]], dtype=torch.int32),
        "context_lens": torch.tensor([6, 4]),
        "quant_type": 3,
        "outdata_type": 1,
        "k_descale": torch.rand(4) / 8,
        "v_descale": torch.rand(4) / 8,
        "out": torch.zeros(2, 4, 16).half(),
    },
    "_npu_paged_attention_splitfuse": _boosted(
        seq_len=torch.tensor([3, 2]), mask=R(5, 8)
    ),
    "_npu_paged_attention_splitfuse_v2": _boosted(
        seq_len=torch.tensor([3, 2]), mask=torch.ones(8, 8)
    ),
    "_npu_flash_attention_qlens": _boosted(
        seq_len=torch.tensor([3, 2]), mask=torch.ones(8, 8)
    ),
    "_npu_flash_attention": _packed(mask=R(8, 8)),
    "_npu_flash_attention_v3": _packed(mask=torch.ones(8, 8)),
    "_npu_flash_attention_unpad": _packed(),
    "_npu_flash_attention_unpad_v2": _packed(),
    **_MORE,
    **_OF_IMAGES,
    **_OF_LAYERS,
    **_OF_PLAIN_NAMES,
    **_OF_STEPS,
    "npu_scatter_pa_kv_cache_functional": {
        "key": R(3, 2, 16),
        "value": R(3, 2, 16),
        "key_cache": torch.zeros(4, 4, 2, 16),
        "value_cache": torch.zeros(4, 4, 2, 16),
        "slot_mapping": torch.tensor([0, 5, 9], dtype=torch.int32),
        "cache_mode": "Norm",
    },
}


# Values that mean something, for arguments of which no number is wrong.
TELLING: dict[str, list[Any]] = {
    **{name: [1] for name in ("pre_tokens", "pre_tockens", "next_tokens")},
    "next_tockens": [1],
    "eps": [9.0],
    "epsilon": [9.0],
    "ks_max": [2, -3],
    "active_num": [2],
    "num_out_tokens": [3],
    "pooled_height": [3],
    "pooled_width": [2],
    "sample_num": [3, 0],
}


def call(name: str, arguments: dict[str, Any]) -> Any:
    """Calls the operator on copies of its tensors. Results with what it wrote."""
    copied = {key: _copy(value) for key, value in arguments.items()}
    rest = dict(copied)
    first = [rest.pop(key) for key in ("self", "input") if key in rest]
    return [operator(name)(*first, **rest), copied]


def operator(name: str) -> Any:
    """The operator of torch_npu, or of torch_npu.atb."""
    return getattr(torch_npu, name, None) or getattr(torch_npu.atb, name)


def _copy(value: Any) -> Any:
    if isinstance(value, list):
        return [_copy(one) for one in value]
    return value.clone() if isinstance(value, torch.Tensor) else value


def parameters(name: str) -> Iterator[tuple[str, str, Any]]:
    """(name, type, default) of the operator's arguments."""
    function = operator(name)
    overload = getattr(function, "default", None)
    if overload in COMPOSITIONS:
        for argument in overload._schema.arguments:
            kind = str(argument.real_type)
            yield argument.name, kind, argument.default_value
        return
    signature = inspect.signature(function)
    for parameter in signature.parameters.values():
        default = parameter.default
        kind = str(parameter.annotation)
        yield parameter.name, kind, None if default is parameter.empty else default


def wrong_values(name: str, kind: str, default: Any) -> list[Any]:
    """Values of the argument's type that no operator can mean."""
    if name in TELLING:
        return TELLING[name]
    if "Sequence[Tensor]" in kind or kind == "List[Tensor]":
        return [[torch.ones(97)]]
    if "Tensor" in kind or kind == "None":
        return [torch.ones(97)]
    if "Generator" in kind:
        return [torch.Generator()]
    if "bool" in kind:
        return [[True] * 7] if "List" in kind else [not default]
    if "str" in kind:
        return ["no such"]
    if "ScalarType" in kind or "dtype" in kind:
        return [torch.complex64]
    if "float" in kind or "number" in kind:
        return [0.37]
    if "List" in kind or "Sequence" in kind:
        return [[12345], [-3]]
    assert "int" in kind or "Int" in kind, kind
    return [12345, -12345]
