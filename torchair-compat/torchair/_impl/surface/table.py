"""The names of torch_npu and torch.npu, and what each does on this host.

    works    it does what the text says
    nothing  it has no effect; the first call says so once, and returns `value`
    refused  a call raises NotImplementedError with the text

scripts/npu_names.py writes NAMES.md from this table, and a test holds the packages to it."""

from __future__ import annotations

from typing import Any, NamedTuple

from ..device import npu
from ..operators.activations.gelu import npu_fast_gelu
from . import extension, hardware, hifloat8, marks, memory, processes

__all__ = ["NOTHING", "REFUSED", "ROWS", "WORKS", "Row"]

WORKS, NOTHING, REFUSED = "works", "nothing", "refused"


class Row(NamedTuple):
    """`value` is what the name is (works), or what a call returns (nothing)."""

    name: str
    kind: str
    text: str
    value: Any = None


def _works(home: str, text: str, **values: Any) -> list[Row]:
    return [Row(f"{home}.{name}", WORKS, text, value) for name, value in values.items()]


def _nothing(home: str, text: str, names: str, value: Any = None) -> list[Row]:
    return [Row(f"{home}.{name}", NOTHING, text, value) for name in names.split()]


def _refused(home: str, text: str, names: str) -> list[Row]:
    return [Row(f"{home}.{name}", REFUSED, text) for name in names.split()]


_NPU = [
    *_works(
        "torch.npu",
        "says what ANABRANCH_NPU_NAME or set_device_name chose",
        get_device_name=npu.get_device_name,
        get_soc_version=hardware.get_soc_version,
        set_device_name=hardware.set_device_name,
    ),
    *_works(
        "torch.npu",
        "a pool is a name: tensors are allocated as without it",
        MemPool=memory.MemPool,
        use_mem_pool=memory.use_mem_pool,
    ),
    *_works(
        "torch.npu",
        "the host's random numbers",
        get_rng_state=memory.get_rng_state,
        get_rng_state_all=memory.get_rng_state_all,
        set_rng_state=memory.set_rng_state,
        set_rng_state_all=memory.set_rng_state_all,
        seed_all=npu.seed,
    ),
    *_works(
        "torch.npu",
        "calls the function at once: work is done when a call returns",
        _launch_host_func=memory.launch_host_func,
    ),
    *_works(
        "torch.npu",
        "PyTorch's autocast of the host",
        get_autocast_dtype=hardware.get_autocast_dtype,
        is_autocast_enabled=hardware.is_autocast_enabled,
        set_autocast_dtype=hardware.set_autocast_dtype,
        set_autocast_enabled=hardware.set_autocast_enabled,
        get_amp_supported_dtype=hardware.get_amp_supported_dtype,
    ),
    *_works(
        "torch.npu",
        "what is so on this host",
        can_device_access_peer=hardware.can_device_access_peer,
        is_jit_compile_false=hardware.is_jit_compile_false,
        utilization=hardware.utilization,
    ),
    *_nothing("torch.npu", "an NPU's runtime has options", "set_option set_aoe"),
    *_nothing("torch.npu", "an NPU can be stopped", "stop_device restart_device", 0),
    *_nothing("torch.npu", "an NPU's memory fails", "check_uce_in_memory", 0),
    *_nothing("torch.npu", "an NPU's memory fails", "_get_uce_addr", []),
    *_nothing("torch.npu", "an NPU's cores are tested", "stress_detect", 0),
    *_nothing(
        "torch.npu._recovery", "an NPU's memory fails", "update_npu_tensor_to_safe"
    ),
    *_nothing(
        "torch.npu",
        "host callbacks run in the call",
        "_subscribe_report _unsubscribe_report",
    ),
    *_nothing(
        "torch.npu",
        "the host's allocator keeps no memory back",
        "ipc_collect host_empty_cache empty_virt_addr_cache"
        " set_per_process_memory_fraction reset_accumulated_memory_stats",
    ),
    *_nothing(
        "torch.npu",
        "dumps are config.debug.data_dump's",
        "init_dump set_dump finalize_dump",
    ),
    *_nothing(
        "torch.npu",
        "sums have one order on this host",
        "set_deterministic_level enable_deterministic_with_backward"
        " disable_deterministic_with_backward set_sync_debug_mode",
    ),
    *_nothing(
        "torch.npu", "sums have one order on this host", "get_sync_debug_mode", 0
    ),
    *_nothing(
        "torch.npu",
        "operators have one implementation",
        "use_compatible_impl set_mm_bmm_format_nd set_op_timeout_ms"
        " clear_npu_overflow_flag",
    ),
    *_nothing(
        "torch.npu",
        "operators have one implementation",
        "are_compatible_impl_enabled get_npu_overflow_flag",
        False,
    ),
    *_nothing(
        "torch.npu", "operators have one implementation", "get_mm_bmm_format_nd", True
    ),
    *_refused(
        "torch.npu.memory",
        "tensors are PyTorch's, on the host; leave the allocator out",
        "NPUPluggableAllocator change_current_allocator caching_allocator_alloc"
        " caching_allocator_delete",
    ),
    *_refused(
        "torch.npu",
        "weights are hidden by an NPU's firmware",
        "obfuscation_initialize obfuscation_calculate obfuscation_finalize",
    ),
]

_MEMORY = [
    *_works(
        "torch.npu.memory",
        "as torch.npu has it",
        MemPool=memory.MemPool,
        use_mem_pool=memory.use_mem_pool,
    ),
    *_works(
        "torch.npu.memory",
        "an empty list: the host's allocator keeps no records",
        memory_snapshot=memory.memory_snapshot,
    ),
    *_nothing(
        "torch.npu.memory",
        "the host's allocator keeps no records",
        "_record_memory_history _dump_snapshot",
    ),
]

_MARKS = _works(
    "torch.npu.mstx",
    "a range of PyTorch's profiler",
    mark=marks.mark,
    range_start=marks.range_start,
    range_end=marks.range_end,
    range_push=marks.range_push,
    range_pop=marks.range_pop,
    mstx_range=marks.mstx_range,
)

_PRIVATE = [
    *_works(
        "torch_npu.npu.utils",
        "as torch.npu has it",
        get_soc_version=hardware.get_soc_version,
        synchronize=npu.synchronize,
        set_device=npu.set_device,
        current_device=npu.current_device,
        device_count=npu.device_count,
    ),
    *_works(
        "torch_npu._C",
        "the number of the NPU that ANABRANCH_NPU_NAME names",
        _npu_get_soc_version=hardware.get_soc_version,
    ),
    *_works(
        "torch_npu._C",
        "a view, which keeps the memory alive",
        _weak_ref_tensor=memory.weak_ref_tensor,
    ),
    *_works(
        "torch_npu._C",
        "the handle of torch.npu.graph_task_group_end",
        _NPUTaskGroupHandle=memory.TaskGroupHandle,
    ),
    *_works(
        "torch_npu._C._distributed_c10d",
        "options are stored; groups are of gloo",
        ProcessGroupHCCL=processes.ProcessGroupHCCL,
    ),
    *_works(
        "torch_npu._C",
        "an option of an NPU's runtime, as bytes: formats are allowed, others are empty",
        _npu_getOption=hardware.get_option,
    ),
    *_nothing("torch_npu._C", "pools have no memory", "_npu_releasePool"),
    *_nothing("torch_npu._C", "streams are of graphs", "_npu_setStream"),
    *_refused(
        "torch_npu.multiprocessing.reductions",
        "a tensor of this host is sent by shared memory; use torch.multiprocessing",
        "rebuild_npu_tensor _rebuild_npu_tensor_original",
    ),
    *_works(
        "torch_npu.utils.cpp_extension",
        "builds an extension of the host, without libraries of an NPU",
        NpuExtension=extension.NpuExtension,
    ),
    *_works(
        "torch_npu.utils",
        "binds the threads that the process has",
        set_thread_affinity=hardware.set_thread_affinity,
        reset_thread_affinity=hardware.reset_thread_affinity,
    ),
    *_nothing(
        "torch_npu.utils", "sums of gradients are not watched", "register_asd_hook"
    ),
    *_nothing("torch_npu", "PyTorch needs no patches", "_apply_patches"),
    *_nothing(
        "torch_npu.op_plugin.atb._atb_ops",
        "operators are defined on import",
        "_register_atb_extensions",
    ),
    *_nothing(
        "torch_npu.profiler.dynamic_profile",
        "profiles start by torch_npu.profiler.profile",
        "init step start",
    ),
    *_works(
        "torch_npu._inductor.lowering_op_list",
        "a list that nothing reads",
        GENERATE_LIST=[],
        GENERATE_LIST2=[],
        FALLBACK_LIST=[],
        LOWERING_OVERLOAD_OP=[],
    ),
    *_works(
        "torch_npu._inductor.lowering", "a function that nothing calls", _init_set=set
    ),
    *_refused(
        "torch_npu.distributed",
        "a group of gloo stays; call destroy_process_group and init_process_group",
        "reinit_process_group",
    ),
    *_refused(
        "torch_npu.contrib.module",
        "quantise with PT2E, and compile what it makes",
        "QuantConv2d",
    ),
    *_refused(
        "torch_npu.op_plugin.meta._meta_registrations",
        "operators of torch_npu are compositions: their shapes come from PyTorch's trace",
        "npu_fusion_attention_forward",
    ),
]

_OPERATORS = [
    *_works(
        "torch_npu",
        "a tensor of the host",
        empty_with_swapped_memory=memory.empty_with_swapped_memory,
    ),
    *_works("torch_npu", "npu_fast_gelu", fast_gelu=npu_fast_gelu),
    *_works(
        "torch_npu",
        "a tensor that keeps bytes of hifloat8, for inference",
        HiFloat8Tensor=hifloat8.HiFloat8Tensor,
    ),
    *_refused(
        "torch_npu",
        "it computes gradients or updates of training; call it in eager PyTorch by the"
        " operators that it joins",
        "npu_fusion_attention_grad npu_swiglu_backward npu_rms_norm_backward"
        " npu_sparse_lightning_indexer_grad_kl_loss npu_apply_adam_w"
        " npu_chunk_gated_delta_rule_fwd_h npu_chunk_fwd_o npu_chunk_bwd_dv_local"
        " npu_chunk_gated_delta_rule_bwd_dhu npu_chunk_bwd_dqkwg"
        " npu_prepare_wy_repr_bwd_da npu_prepare_wy_repr_bwd_full"
        " npu_apply_adam_w_out npu_fusion_attention_grad_v2 npu_fusion_attention_grad_v3"
        " npu_quant_fusion_attention_backward npu_block_sparse_attention_backward"
        " npu_fused_floyd_attention_backward npu_nsa_compress_grad"
        " npu_nsa_select_attention_grad npu_lightning_indexer_grad"
        " npu_dense_lightning_indexer_grad_kl_loss npu_moe_gating_top_k_backward"
        " npu_masked_causal_conv1d_backward npu_attn_softmax_backward_"
        " npu_mhc_pre_backward npu_mhc_post_backward npu_mhc_sinkhorn_backward"
        " npu_swiglu_group_quant_backward npu_cross_entropy_loss"
        " _npu_rms_norm_backward_quant _npu_swiglu_backward_mx_quant_with_dual_axis"
        " npu_add_layer_norm_backward npu_apply_adam npu_bert_apply_adam"
        " npu_binary_cross_entropy_with_logits_backward"
        " npu_bmm_v2_mat1_backward npu_bmm_v2_mat2_backward"
        " npu_ciou_backward npu_confusion_transpose_backward"
        " npu_conv2d_backward npu_conv3d_backward"
        " npu_conv_transpose2d_backward npu_conv_transpose3d_backward"
        " npu_convolution_backward npu_convolution_transpose_backward"
        " npu_cross_entropy_loss_backward npu_deep_norm_backward"
        " npu_diou_backward npu_dropout_backward"
        " npu_dropout_with_add_softmax_backward npu_dtype_cast_backward"
        " _npu_dtype_cast_backward npu_fast_gelu_backward"
        " npu_fused_attention_qkv_grad npu_fused_attention_score_backward"
        " npu_fused_attention_score_grad"
        " npu_fused_linear_cross_entropy_loss_with_max_sum_backward"
        " npu_gather_backward npu_gather_sparse_index_backward"
        " npu_geglu_grad npu_gelu_backward npu_giou_backward"
        " npu_group_norm_swish_grad npu_gru_backward npu_layernorm_grad"
        " npu_linear_backward npu_lstm_backward npu_lstm_cell_backward"
        " npu_lstm_data_backward npu_max_backward npu_min_backward"
        " npu_mish_backward npu_moe_token_permute_grad"
        " npu_moe_token_permute_grad_v2"
        " npu_moe_token_permute_with_routing_map_grad"
        " npu_moe_token_unpermute_grad npu_moe_token_unpermute_grad_v2"
        " npu_moe_token_unpermute_with_routing_map_grad"
        " npu_multi_head_attention_backward npu_ps_roi_pooling_backward"
        " npu_renorm_backward npu_rotary_mul_backward"
        " npu_scaled_masked_softmax_backward npu_silu_backward"
        " npu_softmax_cross_entropy_with_logits_backward"
        " npu_sparse_flash_attention_grad kl_div_backward l1_loss_backward"
        " matmul_double_backward slow_conv_dilated2d_backward"
        " slow_conv_transpose2d_backward stft_backward"
        " repeat_interleave_backward_int repeat_interleave_backward_tensor"
        " _conv_depthwise2d_backward _gru_npu_backward _lstm_npu_backward"
        " fft_c2r_backward fft_r2c_backward kl_div_target_backward"
        " _dropout_with_byte_mask_backward npu_deformable_conv2dbk npu_roi_alignbk"
        " npu_add_quant_gmm npu_add_quant_gmm_ _amp_foreach_non_finite_check"
        " _npu_silent_check _npu_silent_check_v2 _npu_silent_check_v3",
    ),
    *_refused(
        "torch_npu",
        "it is a step of training; call it in eager PyTorch by the operators that it"
        " joins",
        "batch_norm_gather_stats_update dropout_with_byte_mask"
        " _dropout_with_byte_mask _npu_dropout npu_dropout_do_mask"
        " npu_dropout_gen_mask npu_dropout_with_add_softmax npu_fused_attention_score"
        " npu_fused_attention_score_fwd npu_fused_attention_layernorm_qkv_fwd"
        " npu_fused_linear_online_max_sum"
        " npu_fused_cross_entropy_loss_with_max_sum"
        " npu_dense_lightning_indexer_softmax_lse"
        " _npu_fusion_attention_grad_v3_infer_output"
        " _npu_fusion_attention_grad_v3_get_max_workspace"
        " _npu_moe_token_unpermute _npu_moe_token_unpermute_with_routing_map"
        " npu_grid_assign_positive npu_sub_sample npu_random_choice_with_mask"
        " _npu_ciou",
    ),
    *_refused(
        "torch_npu",
        "it reads and writes memory that NPUs of other ranks share; call"
        " npu_moe_distribute_dispatch_v2 and npu_moe_distribute_combine_v2",
        "ffn_worker_scheduler ffn_worker_scheduler_ attention_worker_scheduler"
        " attention_worker_scheduler_ npu_ffn_worker_batching"
        " npu_attention_worker_combine npu_attention_to_ffn npu_ffn_to_attention"
        " npu_moe_distribute_dispatch_setup npu_moe_distribute_dispatch_teardown"
        " npu_moe_distribute_combine_setup npu_moe_distribute_combine_teardown",
    ),
    *_refused(
        "torch_npu._afd",
        "it makes memory that NPUs of other ranks share; call"
        " npu_moe_distribute_dispatch_v2 and npu_moe_distribute_combine_v2",
        "create_schedule_context_holder",
    ),
    *_refused(
        "torch_npu",
        "weights are hidden by an NPU's firmware",
        "obfuscation_initialize obfuscation_calculate obfuscation_finalize",
    ),
    *_refused(
        "torch_npu",
        "an NPU decodes and resizes images; call torchvision",
        "decode_jpeg img_to_tensor crop_and_resize image_normalize image_normalize_",
    ),
    *_refused(
        "torch_npu",
        "an NPU's cores keep a flag of overflow; call torch.isfinite of the result",
        "npu_alloc_float_status npu_get_float_status npu_clear_float_status",
    ),
    *_refused(
        "torch_npu",
        "operators of this host need neither their shapes nor memory before a call",
        "_npu_fused_infer_attention_score_infer_output"
        " _npu_fused_infer_attention_score_v2_infer_output"
        " _npu_fusion_attention_v3_infer_output"
        " _npu_fusion_attention_v3_get_max_workspace",
    ),
    *_refused(
        "torch_npu",
        "ranks of gloo meet by torch.distributed.barrier; call that",
        "_npu_distribute_barrier",
    ),
    *_refused(
        "torch_npu",
        "it is a step of an NPU's recurrent layers; call torch.nn.LSTM or torch.nn.GRU",
        "npu_lstm_data _lstm_npu _gru_npu",
    ),
    *_refused(
        "torch_npu",
        "it works on blocks of an NPU's memory; call PyTorch's operator of the values",
        "npu_stride_add npu_transpose_trans_contiguous"
        " npu_indexing_trans_contiguous npu_hans_encode npu_hans_decode npu_scatter"
        " npu_weight_quant_preprocess _quantize_per_tensor_impl"
        " _quantize_per_channel_impl",
    ),
    *_refused(
        "torch_npu",
        "its weight is compressed in a format that only its processor reads; call"
        " npu_quant_matmul with the weight that was not compressed",
        "npu_matmul_compress_dequant",
    ),
    *_refused(
        "torch_npu",
        "a package of its own defines it, and its kernels are an NPU's; leave the package"
        " out",
        "sgmv_shrink sgmv_expand batch_matmul_transpose transfer_kv_dim_exchange"
        " apply_token_bitmask recurrent_gated_delta_rule mla_preprocess cache_loc_update"
        " build_tree_kernel_efficient triangular_inverse mega_chunk_gdn"
        " transfer_state_per_layer_direct_pf_lf transfer_state_all_layer_direct_lf_pf",
    ),
]

ROWS: tuple[Row, ...] = (*_NPU, *_MEMORY, *_MARKS, *_PRIVATE, *_OPERATORS)
