"""torch_npu for hosts without an NPU: `npu` is another name of the host's device.

This is a module and not a package: if a real torch_npu is installed beside it, the
import system finds the real one."""

from typing import Any

import torch

from anabranch.extension import hide_frames as _hide_frames
from torchair._impl.device import contrib, profiler, testing
from torchair._impl.npu import distributed
from torchair._impl.npu.activations import npu_fast_gelu, npu_gelu
from torchair._impl.npu.attention import (
    npu_fused_infer_attention_score,
    npu_fused_infer_attention_score_v2,
)
from torchair._impl.npu.effects import npu_prefetch, save_npugraph_tensor
from torchair._impl.npu.experts import (
    npu_moe_finalize_routing,
    npu_moe_gating_top_k_softmax,
    npu_moe_init_routing,
)
from torchair._impl.npu.formats import (
    Format,
    get_npu_format,
    npu_format_cast,
    npu_format_cast_,
)
from torchair._impl.npu.install import install as _install
from torchair._impl.npu.llm.caches import (
    npu_group_quant,
    npu_quant_scatter,
    npu_quant_scatter_,
    npu_scatter_pa_kv_cache,
)
from torchair._impl.npu.llm.dispatch import (
    npu_moe_distribute_combine,
    npu_moe_distribute_dispatch,
)
from torchair._impl.npu.llm.flash_attention import (
    npu_apply_rotary_pos_emb,
    npu_incre_flash_attention,
    npu_prompt_flash_attention,
)
from torchair._impl.npu.llm.grouped_matmul import npu_grouped_matmul
from torchair._impl.npu.llm.init_routing import npu_moe_init_routing_v2
from torchair._impl.npu.llm.latent import npu_kv_rmsnorm_rope_cache, npu_mla_prolog
from torchair._impl.npu.llm.routing import (
    npu_moe_compute_expert_tokens,
    npu_moe_gating_top_k,
    npu_moe_token_permute,
    npu_moe_token_unpermute,
)
from torchair._impl.npu.norms import (
    npu_add_rms_norm,
    npu_add_rms_norm_cast,
    npu_add_rms_norm_dynamic_quant,
    npu_add_rms_norm_quant,
    npu_rms_norm,
    npu_rotary_mul,
)
from torchair._impl.npu.quant_matmul import npu_trans_quant_param
from torchair._impl.npu.quantise import (
    npu_dequant_swiglu_quant,
    npu_dynamic_quant,
    npu_quantize,
    npu_swiglu,
)
from torchair._impl.npu.scatter import (
    npu_scatter_nd_update,
    npu_scatter_nd_update_,
    scatter_update,
    scatter_update_,
)
from torchair._impl.npu.training.fusion_attention import (
    npu_fusion_attention,
    npu_fusion_attention_v3,
)
from torchair._impl.npu.weights import (
    npu_convert_weight_to_int4pack,
    npu_transpose_batchmatmul,
    npu_weight_quant_batchmatmul,
)

_hide_frames(__file__)

__all__ = [
    "Format",
    "contrib",
    "distributed",
    "dynamo",
    "get_npu_format",
    "npu",
    "npu_add_rms_norm",
    "npu_add_rms_norm_cast",
    "npu_add_rms_norm_dynamic_quant",
    "npu_add_rms_norm_quant",
    "npu_apply_rotary_pos_emb",
    "npu_convert_weight_to_int4pack",
    "npu_dequant_swiglu_quant",
    "npu_dynamic_quant",
    "npu_fast_gelu",
    "npu_format_cast",
    "npu_format_cast_",
    "npu_fused_infer_attention_score",
    "npu_fused_infer_attention_score_v2",
    "npu_fusion_attention",
    "npu_fusion_attention_v3",
    "npu_gelu",
    "npu_group_quant",
    "npu_grouped_matmul",
    "npu_incre_flash_attention",
    "npu_kv_rmsnorm_rope_cache",
    "npu_mla_prolog",
    "npu_moe_compute_expert_tokens",
    "npu_moe_distribute_combine",
    "npu_moe_distribute_dispatch",
    "npu_moe_finalize_routing",
    "npu_moe_gating_top_k",
    "npu_moe_gating_top_k_softmax",
    "npu_moe_init_routing",
    "npu_moe_init_routing_v2",
    "npu_moe_token_permute",
    "npu_moe_token_unpermute",
    "npu_prefetch",
    "npu_prompt_flash_attention",
    "npu_quant_matmul",
    "npu_quant_scatter",
    "npu_quant_scatter_",
    "npu_quantize",
    "npu_rms_norm",
    "npu_rotary_mul",
    "npu_scatter_nd_update",
    "npu_scatter_nd_update_",
    "npu_scatter_pa_kv_cache",
    "npu_swiglu",
    "npu_trans_quant_param",
    "npu_transpose_batchmatmul",
    "npu_weight_quant_batchmatmul",
    "profiler",
    "save_npugraph_tensor",
    "scatter_update",
    "scatter_update_",
    "testing",
]
__version__ = "0.1.0"

npu, dynamo = _install()
# Scripts call these by their names.
_npu_dropout_gen_mask = torch.ops.npu._npu_dropout_gen_mask
_npu_fused_infer_attention_score_get_max_workspace = (
    torch.ops.npu._npu_fused_infer_attention_score_get_max_workspace
)
_npu_fused_infer_attention_score_v2_get_max_workspace = (
    torch.ops.npu._npu_fused_infer_attention_score_v2_get_max_workspace
)


def npu_quant_matmul(
    x1: torch.Tensor, x2: torch.Tensor, scale: torch.Tensor, **options: Any
) -> torch.Tensor:
    """torch.ops.npu.npu_quant_matmul, with the operator's arguments and results. In a
    compiled graph the product reads the blocks of an x2 in FRACTAL_NZ; an exported
    package packs the weight itself."""
    if torch.compiler.is_compiling() and not torch.compiler.is_exporting():
        options["blocks"] = x2._npu_blocks  # type: ignore[attr-defined]
    return torch.ops.npu.npu_quant_matmul(x1, x2, scale, **options)
