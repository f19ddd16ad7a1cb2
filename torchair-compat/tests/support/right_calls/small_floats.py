"""Right calls of operators that quantise, of norms and gates, and of sampling."""

from __future__ import annotations

from typing import Any

import torch

import torch_npu

bf16 = torch.bfloat16
R = torch.randn
_E8M0 = torch_npu.float8_e8m0fnu
_FOUR = torch_npu.float4_e2m1fn_x2


def _bytes(*shape: int) -> torch.Tensor:
    return torch.randint(124, 130, shape, dtype=torch.uint8)


def _float8(*shape: int) -> torch.Tensor:
    return R(*shape).to(torch.float8_e4m3fn)


_PAIR = {"x1": R(4, 64).to(bf16), "x2": R(4, 64).to(bf16), "gamma": R(64).to(bf16)}
_LAYERS = {"x1": R(4, 8), "x2": R(4, 8), "gamma": R(8), "beta": R(8)}
_CHANNELS = {"weight": R(6), "bias": R(6)}
_FIRST = {"x1_level0_scale": torch.rand(4, 1), "x2_level0_scale": torch.rand(1, 6)}
_SECOND = {"x1_level1_scale": _bytes(4, 1, 2), "x2_level1_scale": _bytes(6, 1, 2)}

_GROUPED = {"group_index": torch.tensor([1, 4])}

CALLS: dict[str, dict[str, Any] | list[dict[str, Any]]] = {
    "npu_dynamic_mx_quant": [
        {"input": R(4, 64).to(bf16)},
        {"input": R(4, 64).to(bf16), "dst_type": torch.float8_e5m2, "scale_alg": 1},
    ],
    "npu_dynamic_dual_level_mx_quant": {"input": R(4, 64).to(bf16)},
    "npu_dynamic_block_quant": {"x": R(4, 200) * 1000},
    "npu_kronecker_quant": {
        "x": R(3, 4, 8).half(),
        "kronecker_p1": R(4, 4).half(),
        "kronecker_p2": R(8, 8).half(),
    },
    "npu_swiglu_mx_quant": [
        {"x": R(4, 128).to(bf16)},
        {"x": R(4, 128).to(bf16) * 9, "swiglu_mode": 2},
    ],
    "npu_swiglu_group_quant": [
        {"x": R(4, 256).to(bf16), "group_index": torch.tensor([1, 2])},
        {"x": R(4, 64), "quant_mode": 3, "output_origin": True},
    ],
    "npu_swiglu_clip_quant": {
        "x": R(4, 16).to(bf16),
        "group_index": torch.tensor([1, 2]),
        "group_alpha": torch.tensor([0.5, 0.7]),
    },
    "npu_dequant_swiglu_clamp_quant": [
        {
            "x": torch.randint(-9, 9, (4, 16), dtype=torch.int32),
            "weight_scale": R(1, 16),
            **more,
        }
        for more in ({}, {"swiglu_mode": 1, "clamp_limit": 0.5})
    ],
    "npu_dynamic_mx_quant_with_dual_axis": {
        "input": R(4, 64).to(bf16),
        "dst_type": torch.float8_e5m2,
        "scale_alg": 1,
    },
    "npu_dynamic_block_mx_quant": {
        "input": R(4, 64).to(bf16),
        "scale_alg": 2,
        "dst_type_max": 7.0,
    },
    "npu_swiglu_mx_quant_with_dual_axis": {"x": R(4, 128).to(bf16), **_GROUPED},
    "npu_grouped_dynamic_mx_quant": {"x": R(4, 64), **_GROUPED},
    "npu_grouped_dynamic_block_quant": {
        "x": R(4, 200) * 1e6,
        "group_list": torch.tensor([1, 4]),
    },
    "npu_anti_mx_quant": {"x": _float8(4, 64), "mxscale": _bytes(4, 1, 2)},
    "npu_dynamic_quant_asymmetric": {"input": R(4, 16).half()},
    "npu_anti_quant": {
        "x": torch.randint(-9, 9, (4, 16), dtype=torch.int8),
        "scale": R(16),
    },
    "npu_quant_max": {"x": R(4, 16), "scale": torch.tensor([0.1])},
    "npu_swiglu_quant": [
        {
            "x": R(4, 16) * 9,
            "smooth_scales": R(2, 8),
            "group_index": torch.tensor([1, 3]),
            "quant_mode": mode,
        }
        for mode in (0, 1)
    ],
    "npu_gelu_quant": [
        {"self": R(4, 16), "quant_mode": mode, "input_scale": R(16) * 9}
        for mode in ("static", "dynamic")
    ],
    "npu_rotate_quant": [
        {"x": R(4, 64).half(), "rotation": R(32, 32).half()},
        {
            "x": R(4, 64).half(),
            "rotation": R(32, 32).half(),
            "dst_dtype": torch.float8_e4m3fn,
            "scale_alg": 1,
            "alpha": torch.tensor([0.5]),
        },
    ],
    "npu_gelu_mul": {"input": R(4, 16) * 3},
    "npu_add_rms_norm_v2": {"x1": R(4, 8), "x2": R(4, 8), "gamma": R(8)},
    "npu_add_rms_norm_v2_functional": {"x1": R(4, 8), "x2": R(4, 8), "gamma": R(8)},
    "npu_rms_norm_quant_v2": {
        "x": R(4, 16),
        "gamma": R(16),
        "scale": torch.tensor([0.1]),
        "offset": torch.tensor([1.0]),
    },
    "npu_dtype_cast": {"self": R(4, 8), "dtype": torch.int32},
    "npu_dtype_cast_": {"self": torch.zeros(4, 8).half(), "src": R(4, 8)},
    "npu_rms_norm_quant": {
        "x": R(4, 16),
        "gamma": R(16),
        "beta": R(16),
        "scale": torch.tensor([9.0]),
        "offset": torch.tensor([1], dtype=torch.int8),
    },
    "npu_rms_norm_dynamic_mx_quant": {
        "x": _PAIR["x1"],
        "gamma": _PAIR["gamma"],
        "dst_type": torch.float8_e4m3fn,
    },
    "npu_add_rms_norm_dynamic_mx_quant": {**_PAIR, "dst_type": torch.float8_e4m3fn},
    "npu_gemma_rms_norm": {"self": R(4, 8), "gamma": R(8)},
    "npu_layer_norm_eval": {"input": R(4, 8), "normalized_shape": [8]},
    "npu_add_layer_norm": _LAYERS,
    "npu_deep_norm": {"x": R(4, 8), "gx": R(4, 8), "beta": R(8), "gamma": R(8)},
    "npu_group_norm_silu": {"input": R(2, 6, 4), "group": 2, **_CHANNELS},
    "npu_group_norm_swish": {"input": R(2, 6, 4), "num_groups": 2, **_CHANNELS},
    "npu_geglu": {"self": R(4, 8)},
    "npu_clipped_swiglu": {"x": R(4, 8) * 9},
    "npu_top_k_top_p": {
        "logits": R(3, 9),
        "p": torch.full((3,), 0.6),
        "k": torch.tensor([3, 4, 5], dtype=torch.int32),
    },
    "npu_top_k_top_p_sample": {
        "logits": torch.arange(9).repeat(3, 1) / 10,
        "top_k": torch.tensor([3, 4, 5], dtype=torch.int32),
        "top_p": torch.full((3,), 0.9),
        # The last token but one, unless eps outweighs it.
        "q": torch.tensor([[1.0] * 7 + [0.5, 1.0]] * 3),
        "is_need_logits": True,
    },
    "npu_fused_matmul": [
        {"x1": R(4, 8), "x2": R(8, 6)},
        {"x1": R(4, 8), "x2": R(8, 6), "x3": R(4, 6), "fused_op_type": "add"},
    ],
    "npu_dual_level_quant_matmul": {
        "x1": torch.randint(0, 256, (4, 32), dtype=torch.uint8),
        "x2": torch.randint(0, 256, (6, 32), dtype=torch.uint8),
        **_FIRST,
        **_SECOND,
    },
    "npu_transpose_quant_batchmatmul": {
        "x1": _float8(4, 2, 64),
        "x2": _float8(2, 64, 6),
        "dtype": torch.float16,
        "x1_scale": torch.rand(4),
        "x2_scale": torch.rand(6),
    },
}
