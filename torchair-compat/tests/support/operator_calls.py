"""A right call of each operator of torch_npu, and wrong values for its arguments."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import torch

import torch_npu
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
        {"x": ints(4, 16, dtype=torch.int32), "weight_scale": R(1, 16), **more}
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
    "npu_kv_rmsnorm_rope_cache": {
        "kv": R(1, 1, 1, 12),
        "gamma": R(8),
        "cos": R(1, 1, 1, 4),
        "sin": R(1, 1, 1, 4),
        "index": torch.zeros(1, 1).long(),
        "k_cache": torch.zeros(1, 1, 2, 4),
        "ckv_cache": torch.zeros(1, 1, 2, 8),
    },
    "npu_mla_prolog": _latent(),
    "npu_grouped_matmul": {"x": [R(4, 8)], "weight": [R(8, 6)]},
    "npu_fusion_attention": _masked(head_num=4, keep_prob=0.5, seed=5),
    "npu_fusion_attention_v3": _masked(head_num=4),
}


# Values that mean something, for arguments of which no number is wrong.
TELLING: dict[str, list[Any]] = {
    **{name: [1] for name in ("pre_tokens", "pre_tockens", "next_tokens")},
    "next_tockens": [1],
    "epsilon": [9.0],
    "active_num": [2],
    "num_out_tokens": [3],
}


def call(name: str, arguments: dict[str, Any]) -> Any:
    """Calls the operator on copies of its tensors. Results with what it wrote."""
    copied = {key: _copy(value) for key, value in arguments.items()}
    rest = dict(copied)
    first = [rest.pop(key) for key in ("self", "input") if key in rest]
    return [getattr(torch_npu, name)(*first, **rest), copied]


def _copy(value: Any) -> Any:
    if isinstance(value, list):
        return [_copy(one) for one in value]
    return value.clone() if isinstance(value, torch.Tensor) else value


def parameters(name: str) -> Iterator[tuple[str, str, Any]]:
    """(name, type, default) of the operator's arguments."""
    function = getattr(torch_npu, name)
    overload = getattr(getattr(torch.ops.npu, name, None), "default", None)
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
    if "bool" in kind:
        return [[True] * 7] if "List" in kind else [not default]
    if "str" in kind:
        return ["no such"]
    if "ScalarType" in kind or "dtype" in kind:
        return [torch.complex64]
    if "float" in kind:
        return [0.37]
    if "List" in kind or "Sequence" in kind:
        return [[12345], [-3]]
    assert "int" in kind or "Int" in kind, kind
    return [12345, -12345]
