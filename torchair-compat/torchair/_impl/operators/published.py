"""All operators of torch_npu. scripts/npu_operators.py writes this file."""

from .activations.gates import npu_clipped_swiglu, npu_geglu
from .activations.gelu import npu_fast_gelu, npu_gelu, npu_gelu_mul
from .activations.swiglu import npu_swiglu
from .activations.swiglu_group import npu_swiglu_group_quant
from .activations.swiglu_mx import (
    npu_swiglu_mx_quant,
    npu_swiglu_mx_quant_with_dual_axis,
)
from .attention import dropout  # noqa: F401
from .attention.block_sparse import npu_block_sparse_attention
from .attention.flash import npu_incre_flash_attention, npu_prompt_flash_attention
from .attention.floyd import npu_fused_floyd_attention
from .attention.fused_infer import (
    npu_fused_infer_attention_score,
    npu_fused_infer_attention_score_v2,
)
from .attention.fusion import npu_fusion_attention, npu_fusion_attention_v3
from .attention.fusion_v2 import npu_fusion_attention_v2
from .attention.projected import npu_multi_head_attention
from .attention.quant_fusion import npu_quant_fusion_attention
from .attention.update import npu_attention_update, npu_ring_attention_update
from .boost import (
    alibi,  # noqa: F401
    attention,  # noqa: F401
    caches,  # noqa: F401
    latent,  # noqa: F401
    pages,  # noqa: F401
    products,  # noqa: F401
    quantise,  # noqa: F401
    quantised_pages,  # noqa: F401
    ring,  # noqa: F401
)
from .boxes.anchors import npu_anchor_response_flags, npu_yolo_boxes_encode
from .boxes.coordinates import npu_bounding_box_decode, npu_bounding_box_encode
from .boxes.overlaps import npu_ciou, npu_diou, npu_giou, npu_iou, npu_ptiou
from .boxes.pooling import npu_ps_roi_pooling
from .boxes.rotated import npu_rotated_box_decode, npu_rotated_box_encode
from .boxes.rotated_overlaps import npu_rotated_iou, npu_rotated_overlaps
from .boxes.sampling import npu_deformable_conv2d, npu_roi_align
from .boxes.suppression import (
    npu_batch_nms,
    npu_nms_rotated,
    npu_nms_v4,
    npu_nms_with_mask,
)
from .caches.lists import npu_scatter_list, npu_scatter_list_
from .caches.paged import npu_scatter_pa_kv_cache, npu_scatter_pa_kv_cache_functional
from .caches.pages import (
    npu_gather_pa_kv_cache,
    npu_gather_pa_kv_cache_functional,
    npu_scatter_pa_cache,
)
from .caches.qkv_norm import (
    npu_qkv_rms_norm_rope_cache,
    npu_qkv_rms_norm_rope_cache_functional,
)
from .caches.quant_scatter import npu_quant_scatter, npu_quant_scatter_
from .caches.scatter import (
    npu_scatter_nd_update,
    npu_scatter_nd_update_,
    scatter_update,
    scatter_update_,
)
from .delta.causal_conv import (
    npu_fused_causal_conv1d,
    npu_fused_causal_conv1d_v2,
    npu_masked_causal_conv1d,
)
from .delta.chunked import npu_chunk_gated_delta_rule, npu_recompute_w_u_fwd
from .delta.recurrent import (
    npu_recurrent_gated_delta_rule,
    npu_recurrent_gated_delta_rule_functional,
)
from .exchanges.even import npu_all_to_all_matmul, npu_matmul_all_to_all
from .exchanges.even_quant import (
    npu_all_to_all_quant_matmul,
    npu_quant_matmul_all_to_all,
)
from .exchanges.uneven import npu_alltoallv_gmm, npu_gmm_alltoallv
from .exchanges.uneven_quant import npu_alltoallv_quant_gmm, npu_quant_gmm_alltoallv
from .latent.prolog import (
    npu_mla_prolog,
    npu_mla_prolog_v2,
    npu_mla_prolog_v3,
    npu_mla_prolog_v3_functional,
)
from .latent.rope_cache import (
    npu_kv_rmsnorm_rope_cache,
    npu_kv_rmsnorm_rope_cache_v2,
    npu_kv_rmsnorm_rope_cache_v2_functional,
)
from .memory.effects import npu_prefetch, print_npugraph_tensor, save_npugraph_tensor
from .memory.formats import (
    empty_with_format,
    get_npu_format,
    npu_format_cast,
    npu_format_cast_,
)
from .memory.indexing import npu_indexing
from .memory.rows import (
    npu_attn_softmax_,
    npu_gather_sparse_index,
    npu_masked_softmax_with_rel_pos_bias,
)
from .norms.dynamic_norms import (
    npu_add_rms_norm_dynamic_mx_quant,
    npu_add_rms_norm_dynamic_quant,
    npu_rms_norm_dynamic_mx_quant,
)
from .norms.layer_norm import (
    npu_add_layer_norm,
    npu_deep_norm,
    npu_group_norm_silu,
    npu_group_norm_swish,
    npu_layer_norm_eval,
)
from .norms.rms_norm import (
    npu_add_rms_norm,
    npu_add_rms_norm_cast,
    npu_add_rms_norm_v2,
    npu_add_rms_norm_v2_functional,
    npu_rms_norm,
)
from .norms.rms_norm_quant import (
    npu_add_rms_norm_quant,
    npu_gemma_rms_norm,
    npu_rms_norm_quant,
    npu_rms_norm_quant_v2,
)
from .plain.calibration import npu_ifmr
from .plain.layers import (
    npu_bmmV2,
    npu_conv2d,
    npu_conv3d,
    npu_conv_transpose2d,
    npu_convolution,
    npu_convolution_transpose,
    npu_linear,
    npu_mish,
    npu_silu,
    npu_silu_,
)
from .plain.ranges import npu_masked_fill_range, npu_normalize_batch
from .plain.recurrent import npu_gru, npu_lstm, npu_lstm_cell
from .plain.shapes import (
    npu_broadcast,
    npu_confusion_transpose,
    npu_pad,
    npu_reshape,
    npu_slice,
    npu_stride_copy,
    npu_transpose,
    npu_view_copy,
    one_,
    reverse,
)
from .plain.values import (
    batch_norm_reduce,
    npu_max,
    npu_min,
    npu_one_hot,
    npu_scaled_masked_softmax,
    npu_sign_bits_pack,
    npu_sign_bits_unpack,
    npu_softmax_cross_entropy_with_logits,
    npu_sort_v2,
)
from .positions.rope_caches import (
    npu_dequant_rope_quant_kvcache,
    npu_rope_quant_kvcache,
)
from .positions.rotary import (
    npu_apply_rotary_pos_emb,
    npu_interleave_rope,
    npu_rotary_mul,
)
from .positions.tables import npu_mrope
from .products.added import (
    npu_add_quant_matmul,
    npu_add_quant_matmul_,
    npu_grouped_matmul_add,
    npu_grouped_matmul_add_,
    npu_quant_matmul_dequant,
)
from .products.ffn import npu_ffn
from .products.fused_matmul import npu_fused_matmul
from .products.gathered import npu_batch_gather_matmul, npu_batch_gather_matmul_
from .products.grouped_gates import (
    npu_grouped_matmul_swiglu_quant,
    npu_grouped_matmul_swiglu_quant_v2,
)
from .products.grouped_matmul import npu_grouped_matmul
from .products.grouped_quant import (
    npu_grouped_matmul_finalize_routing,
    npu_groupmatmul_add_fp32,
    npu_quant_grouped_matmul_dequant,
)
from .products.joined_products import npu_quant_matmul_gelu, npu_quant_matmul_reduce_sum
from .products.quant_conv import npu_quant_conv2d
from .products.quant_matmul import npu_quant_matmul, npu_trans_quant_param
from .products.rank_products import (
    npu_all_gather_base_mm,
    npu_mm_all_reduce_base,
    npu_mm_reduce_scatter_base,
)
from .products.rank_quant import npu_all_gather_quant_mm, npu_quant_mm_reduce_scatter
from .products.small_products import (
    npu_dual_level_quant_matmul,
    npu_transpose_quant_batchmatmul,
)
from .products.weights import (
    npu_convert_weight_to_int4pack,
    npu_transpose_batchmatmul,
    npu_weight_quant_batchmatmul,
)
from .quantisation.anti_quant import npu_anti_quant, npu_quant_max
from .quantisation.block_quant import npu_dynamic_block_quant, npu_kronecker_quant
from .quantisation.casts import npu_dtype_cast, npu_dtype_cast_
from .quantisation.clip_quant import (
    npu_dequant_swiglu_clamp_quant,
    npu_swiglu_clip_quant,
)
from .quantisation.dequant_swiglu import npu_dequant_swiglu_quant
from .quantisation.group_quant import npu_group_quant
from .quantisation.grouped_blocks import (
    npu_grouped_dynamic_block_quant,
    npu_grouped_dynamic_mx_quant,
)
from .quantisation.joined import npu_gelu_quant, npu_rotate_quant, npu_swiglu_quant
from .quantisation.mx_axes import (
    npu_anti_mx_quant,
    npu_dynamic_block_mx_quant,
    npu_dynamic_mx_quant_with_dual_axis,
)
from .quantisation.mx_quant import npu_dynamic_dual_level_mx_quant, npu_dynamic_mx_quant
from .quantisation.quantise import (
    npu_dynamic_quant,
    npu_dynamic_quant_asymmetric,
    npu_quantize,
)
from .quantisation.sums import npu_dequant_bias
from .residuals.hyper import npu_mhc_post, npu_mhc_pre, npu_mhc_sinkhorn
from .routing.combine_norm import npu_moe_distribute_combine_add_rms_norm
from .routing.dispatch import npu_moe_distribute_combine, npu_moe_distribute_dispatch
from .routing.dispatch_v2 import (
    npu_moe_distribute_combine_v2,
    npu_moe_distribute_dispatch_v2,
)
from .routing.experts import (
    npu_moe_finalize_routing,
    npu_moe_gating_top_k_softmax,
    npu_moe_gating_top_k_softmax_v2,
    npu_moe_init_routing,
)
from .routing.init_group_quant import npu_moe_init_routing_group_quant
from .routing.init_routing import npu_moe_init_routing_v2
from .routing.init_routing_quant import npu_moe_init_routing_quant
from .routing.re_routing import npu_moe_re_routing
from .routing.routing import (
    npu_moe_compute_expert_tokens,
    npu_moe_gating_top_k,
    npu_moe_token_permute,
    npu_moe_token_unpermute,
)
from .routing.routing_map import (
    npu_moe_token_permute_with_routing_map,
    npu_moe_token_unpermute_with_routing_map,
)
from .routing.update_expert import npu_moe_update_expert
from .sampling.steps import npu_advance_step_flashattn, npu_sim_exponential_
from .sampling.top_k_top_p import npu_top_k_top_p, npu_top_k_top_p_sample
from .sparse.attention import (
    npu_kv_quant_sparse_flash_attention,
    npu_sparse_flash_attention,
)
from .sparse.compressed import (
    npu_nsa_compress,
    npu_nsa_compress_attention,
    npu_nsa_compress_infer,
)
from .sparse.compressed_pages import npu_nsa_compress_attention_infer
from .sparse.indexer import npu_lightning_indexer, npu_quant_lightning_indexer
from .sparse.selected import npu_nsa_select_attention, npu_nsa_select_attention_infer
from .sparse.selection import npu_gather_selection_kv_cache

__all__ = [
    "batch_norm_reduce",
    "empty_with_format",
    "get_npu_format",
    "npu_add_layer_norm",
    "npu_add_quant_matmul",
    "npu_add_quant_matmul_",
    "npu_add_rms_norm",
    "npu_add_rms_norm_cast",
    "npu_add_rms_norm_dynamic_mx_quant",
    "npu_add_rms_norm_dynamic_quant",
    "npu_add_rms_norm_quant",
    "npu_add_rms_norm_v2",
    "npu_add_rms_norm_v2_functional",
    "npu_advance_step_flashattn",
    "npu_all_gather_base_mm",
    "npu_all_gather_quant_mm",
    "npu_all_to_all_matmul",
    "npu_all_to_all_quant_matmul",
    "npu_alltoallv_gmm",
    "npu_alltoallv_quant_gmm",
    "npu_anchor_response_flags",
    "npu_anti_mx_quant",
    "npu_anti_quant",
    "npu_apply_rotary_pos_emb",
    "npu_attention_update",
    "npu_attn_softmax_",
    "npu_batch_gather_matmul",
    "npu_batch_gather_matmul_",
    "npu_batch_nms",
    "npu_block_sparse_attention",
    "npu_bmmV2",
    "npu_bounding_box_decode",
    "npu_bounding_box_encode",
    "npu_broadcast",
    "npu_chunk_gated_delta_rule",
    "npu_ciou",
    "npu_clipped_swiglu",
    "npu_confusion_transpose",
    "npu_conv2d",
    "npu_conv3d",
    "npu_conv_transpose2d",
    "npu_convert_weight_to_int4pack",
    "npu_convolution",
    "npu_convolution_transpose",
    "npu_deep_norm",
    "npu_deformable_conv2d",
    "npu_dequant_bias",
    "npu_dequant_rope_quant_kvcache",
    "npu_dequant_swiglu_clamp_quant",
    "npu_dequant_swiglu_quant",
    "npu_diou",
    "npu_dtype_cast",
    "npu_dtype_cast_",
    "npu_dual_level_quant_matmul",
    "npu_dynamic_block_mx_quant",
    "npu_dynamic_block_quant",
    "npu_dynamic_dual_level_mx_quant",
    "npu_dynamic_mx_quant",
    "npu_dynamic_mx_quant_with_dual_axis",
    "npu_dynamic_quant",
    "npu_dynamic_quant_asymmetric",
    "npu_fast_gelu",
    "npu_ffn",
    "npu_format_cast",
    "npu_format_cast_",
    "npu_fused_causal_conv1d",
    "npu_fused_causal_conv1d_v2",
    "npu_fused_floyd_attention",
    "npu_fused_infer_attention_score",
    "npu_fused_infer_attention_score_v2",
    "npu_fused_matmul",
    "npu_fusion_attention",
    "npu_fusion_attention_v2",
    "npu_fusion_attention_v3",
    "npu_gather_pa_kv_cache",
    "npu_gather_pa_kv_cache_functional",
    "npu_gather_selection_kv_cache",
    "npu_gather_sparse_index",
    "npu_geglu",
    "npu_gelu",
    "npu_gelu_mul",
    "npu_gelu_quant",
    "npu_gemma_rms_norm",
    "npu_giou",
    "npu_gmm_alltoallv",
    "npu_group_norm_silu",
    "npu_group_norm_swish",
    "npu_group_quant",
    "npu_grouped_dynamic_block_quant",
    "npu_grouped_dynamic_mx_quant",
    "npu_grouped_matmul",
    "npu_grouped_matmul_add",
    "npu_grouped_matmul_add_",
    "npu_grouped_matmul_finalize_routing",
    "npu_grouped_matmul_swiglu_quant",
    "npu_grouped_matmul_swiglu_quant_v2",
    "npu_groupmatmul_add_fp32",
    "npu_gru",
    "npu_ifmr",
    "npu_incre_flash_attention",
    "npu_indexing",
    "npu_interleave_rope",
    "npu_iou",
    "npu_kronecker_quant",
    "npu_kv_quant_sparse_flash_attention",
    "npu_kv_rmsnorm_rope_cache",
    "npu_kv_rmsnorm_rope_cache_v2",
    "npu_kv_rmsnorm_rope_cache_v2_functional",
    "npu_layer_norm_eval",
    "npu_lightning_indexer",
    "npu_linear",
    "npu_lstm",
    "npu_lstm_cell",
    "npu_masked_causal_conv1d",
    "npu_masked_fill_range",
    "npu_masked_softmax_with_rel_pos_bias",
    "npu_matmul_all_to_all",
    "npu_max",
    "npu_mhc_post",
    "npu_mhc_pre",
    "npu_mhc_sinkhorn",
    "npu_min",
    "npu_mish",
    "npu_mla_prolog",
    "npu_mla_prolog_v2",
    "npu_mla_prolog_v3",
    "npu_mla_prolog_v3_functional",
    "npu_mm_all_reduce_base",
    "npu_mm_reduce_scatter_base",
    "npu_moe_compute_expert_tokens",
    "npu_moe_distribute_combine",
    "npu_moe_distribute_combine_add_rms_norm",
    "npu_moe_distribute_combine_v2",
    "npu_moe_distribute_dispatch",
    "npu_moe_distribute_dispatch_v2",
    "npu_moe_finalize_routing",
    "npu_moe_gating_top_k",
    "npu_moe_gating_top_k_softmax",
    "npu_moe_gating_top_k_softmax_v2",
    "npu_moe_init_routing",
    "npu_moe_init_routing_group_quant",
    "npu_moe_init_routing_quant",
    "npu_moe_init_routing_v2",
    "npu_moe_re_routing",
    "npu_moe_token_permute",
    "npu_moe_token_permute_with_routing_map",
    "npu_moe_token_unpermute",
    "npu_moe_token_unpermute_with_routing_map",
    "npu_moe_update_expert",
    "npu_mrope",
    "npu_multi_head_attention",
    "npu_nms_rotated",
    "npu_nms_v4",
    "npu_nms_with_mask",
    "npu_normalize_batch",
    "npu_nsa_compress",
    "npu_nsa_compress_attention",
    "npu_nsa_compress_attention_infer",
    "npu_nsa_compress_infer",
    "npu_nsa_select_attention",
    "npu_nsa_select_attention_infer",
    "npu_one_hot",
    "npu_pad",
    "npu_prefetch",
    "npu_prompt_flash_attention",
    "npu_ps_roi_pooling",
    "npu_ptiou",
    "npu_qkv_rms_norm_rope_cache",
    "npu_qkv_rms_norm_rope_cache_functional",
    "npu_quant_conv2d",
    "npu_quant_fusion_attention",
    "npu_quant_gmm_alltoallv",
    "npu_quant_grouped_matmul_dequant",
    "npu_quant_lightning_indexer",
    "npu_quant_matmul",
    "npu_quant_matmul_all_to_all",
    "npu_quant_matmul_dequant",
    "npu_quant_matmul_gelu",
    "npu_quant_matmul_reduce_sum",
    "npu_quant_max",
    "npu_quant_mm_reduce_scatter",
    "npu_quant_scatter",
    "npu_quant_scatter_",
    "npu_quantize",
    "npu_recompute_w_u_fwd",
    "npu_recurrent_gated_delta_rule",
    "npu_recurrent_gated_delta_rule_functional",
    "npu_reshape",
    "npu_ring_attention_update",
    "npu_rms_norm",
    "npu_rms_norm_dynamic_mx_quant",
    "npu_rms_norm_quant",
    "npu_rms_norm_quant_v2",
    "npu_roi_align",
    "npu_rope_quant_kvcache",
    "npu_rotary_mul",
    "npu_rotate_quant",
    "npu_rotated_box_decode",
    "npu_rotated_box_encode",
    "npu_rotated_iou",
    "npu_rotated_overlaps",
    "npu_scaled_masked_softmax",
    "npu_scatter_list",
    "npu_scatter_list_",
    "npu_scatter_nd_update",
    "npu_scatter_nd_update_",
    "npu_scatter_pa_cache",
    "npu_scatter_pa_kv_cache",
    "npu_scatter_pa_kv_cache_functional",
    "npu_sign_bits_pack",
    "npu_sign_bits_unpack",
    "npu_silu",
    "npu_silu_",
    "npu_sim_exponential_",
    "npu_slice",
    "npu_softmax_cross_entropy_with_logits",
    "npu_sort_v2",
    "npu_sparse_flash_attention",
    "npu_stride_copy",
    "npu_swiglu",
    "npu_swiglu_clip_quant",
    "npu_swiglu_group_quant",
    "npu_swiglu_mx_quant",
    "npu_swiglu_mx_quant_with_dual_axis",
    "npu_swiglu_quant",
    "npu_top_k_top_p",
    "npu_top_k_top_p_sample",
    "npu_trans_quant_param",
    "npu_transpose",
    "npu_transpose_batchmatmul",
    "npu_transpose_quant_batchmatmul",
    "npu_view_copy",
    "npu_weight_quant_batchmatmul",
    "npu_yolo_boxes_encode",
    "one_",
    "print_npugraph_tensor",
    "reverse",
    "save_npugraph_tensor",
    "scatter_update",
    "scatter_update_",
]
