"""The tiny model of each recipe: its configuration, and the settings of its run."""

from __future__ import annotations

from typing import Any

WIDTHS: dict[str, Any] = {
    "hidden_size": 128,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 128,
    "vocab_size": 512,
    "max_position_embeddings": 4096,
    "rms_norm_eps": 1e-6,
    "hidden_act": "silu",
    "initializer_range": 0.02,
    "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
    "rope_theta": 10000.0,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
# Latent attention has one size of its operators: 512 elements and 64 with positions.
_LATENT = {
    "num_key_value_heads": 4,
    "q_lora_rank": 64,
    "kv_lora_rank": 512,
    "qk_rope_head_dim": 64,
    "qk_nope_head_dim": 128,
    "v_head_dim": 128,
}
_EXPERTS = {
    "n_routed_experts": 8,
    "n_shared_experts": 1,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 64,
    "n_group": 1,
    "topk_group": 1,
    "first_k_dense_replace": 1,
    "num_nextn_predict_layers": 1,
    "routed_scaling_factor": 1.0,
}
_INDEX = {"index_n_heads": 8, "index_head_dim": 128, "index_topk": 64}
_YARN = {
    "rope_parameters": None,
    "rope_scaling": {
        "type": "yarn",
        "factor": 4.0,
        "original_max_position_embeddings": 1024,
        "beta_fast": 32,
        "beta_slow": 1,
        "mscale": 1.0,
        "mscale_all_dim": 1.0,
    },
}
_LONGCAT = {
    **_LATENT,
    "num_hidden_layers": None,
    "num_layers": 2,
    "ffn_hidden_size": 128,
    "expert_ffn_hidden_size": 64,
    "n_routed_experts": 8,
    "zero_expert_num": 4,
    "zero_expert_type": "identity",
    "moe_topk": 2,
    "routed_scaling_factor": 1.0,
    "num_nextn_predict_layers": 1,
}
# Of each model: what its configuration has beside WIDTHS.
MODELS: dict[str, dict[str, Any]] = {
    "qwen3_8b": {"model_type": "qwen3", "head_dim": 32, "attention_bias": False},
    "qwen25_7b_instruct": {"model_type": "qwen2", "head_dim": 32},
    "qwen3_moe": {
        "model_type": "qwen3_moe",
        "head_dim": 32,
        "num_experts": 8,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 64,
        "decoder_sparse_step": 1,
        "mlp_only_layers": [],
        "norm_topk_prob": True,
    },
    "bailing_2_5": {
        **_LATENT,
        **_EXPERTS,
        "head_dim": 128,
        "num_experts": 8,
        "num_shared_experts": 1,
        "layer_group_size": 2,
        "group_norm_size": 2,
        "ffn_hidden_size": 128,
        "expert_ffn_hidden_size": 64,
        "num_nextn_predict_layers": 0,
        "rope_scaling": None,
    },
    "deepseek_r1": {"model_type": "deepseek_v3", **_LATENT, **_EXPERTS, **_YARN},
    "deepseek_v3_2_exp": {
        "model_type": "deepseek_v3",
        **_LATENT,
        **_EXPERTS,
        **_YARN,
        **_INDEX,
    },
    "gemma_4": {
        "hidden_activation": "gelu_pytorch_tanh",
        "head_dim": 64,
        "global_head_dim": 64,
        "num_global_key_value_heads": 2,
        "sliding_window": 64,
        "enable_moe_block": True,
        "num_experts": 8,
        "top_k_experts": 2,
        "moe_intermediate_size": 64,
        "rope_parameters": None,
        "layer_types": ["sliding_attention", "full_attention"],
    },
    "gpt_oss": {
        "head_dim": 64,
        "num_local_experts": 8,
        "num_experts_per_tok": 2,
        "sliding_window": 128,
        "rope_parameters": {
            "rope_type": "yarn",
            "factor": 32.0,
            "beta_fast": 32.0,
            "beta_slow": 1.0,
            "truncate": False,
            "original_max_position_embeddings": 4096,
            "rope_theta": 150000.0,
        },
    },
    "glm_5": {
        "moe_layer_freq": 1,
        "scoring_func": "sigmoid",
        "topk_method": "noaux_tc",
        "model_type": "glm_moe_dsa",
        **_LATENT,
        **_EXPERTS,
        **_INDEX,
    },
    "hy3": {
        "head_dim": 128,
        "num_experts": 8,
        "num_experts_per_tok": 2,
        "num_shared_experts": 1,
        "moe_intermediate_size": 64,
        "expert_hidden_dim": 64,
        "num_nextn_predict_layers": 1,
    },
    "kimi_k2_thinking": {"model_type": "deepseek_v3", **_LATENT, **_EXPERTS, **_YARN},
    "longcat_flash": _LONGCAT,
    "longcat_flash_lite": {
        **_LONGCAT,
        # The release of transformers that is installed may have no "default" here.
        "rope_parameters": {
            "rope_type": "linear",
            "factor": 1.0,
            "rope_theta": 10000.0,
        },
        "head_dim": 64,
        "emb_neighbor_num": 4,
        "emb_split_num": 4,
        "ngram_vocab_size_ratio": 2,
    },
    "qwen3.5": {
        "model_type": "qwen3_5_moe_text",
        "head_dim": 64,
        "linear_num_key_heads": 4,
        "linear_num_value_heads": 4,
        "linear_key_head_dim": 128,
        "linear_value_head_dim": 128,
        "linear_conv_kernel_dim": 4,
        "num_experts": 8,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 64,
        "shared_expert_intermediate_size": 64,
        "full_attention_interval": 2,
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": 10000.0,
            "partial_rotary_factor": 0.25,
        },
    },
    "step3p7_flash": {
        "model_type": "step3p5",
        "num_attention_groups": 2,
        "head_dim": 64,
        "moe_num_experts": 8,
        "moe_top_k": 2,
        "moe_intermediate_size": 64,
        "share_expert_dim": 64,
        "layer_types": ["full_attention", "sliding_attention"],
        "sliding_window": 64,
        "use_qk_norm": True,
        "use_moe_router_bias": True,
        "moe_router_activation": "sigmoid",
        "attention_other_setting": {
            "num_attention_heads": 4,
            "num_attention_groups": 2,
        },
    },
}
# bf16, int8 weights and activations, and bf16 with a head for drafted tokens.
KINDS = ("bf16", "int8", "drafts")
# The recipe of kimi_k2_thinking asks for no drafts: its head has no rotary embedding.
WITH_DRAFTS = {"deepseek_r1", "deepseek_v3_2_exp", "glm_5", "hy3", "longcat_flash"}
_INT8 = {"num_bits": 8, "type": "int", "symmetric": True}
QUANTISED = {
    "quant_method": "compressed-tensors",
    "format": "int-quantized",
    "config_groups": {
        "group_0": {
            "targets": ["Linear", "MoEGMM"],
            "weights": {**_INT8, "strategy": "channel", "dynamic": False},
            "input_activations": {**_INT8, "strategy": "token", "dynamic": True},
        }
    },
    # As the recipes' own conversions leave them.
    "ignore": [
        "re:.*head.*",
        "re:.*[.]gate$",
        "re:.*(kv_a_proj_with_mqa|kv_b_proj|[.]q_a_proj|eh_proj)$",
        "re:.*indexer[.](wk|weights_proj)$",
    ],
}
# Beside those: what a recipe's own checkpoints keep in bf16.
IGNORED = {
    name: ["re:.*self_attn.*"] for name in ("kimi_k2_thinking", "longcat_flash_lite")
}
# The pages of these recipes have MX formats or fp8 in place of int8.
WITHOUT_INT8 = {"hy3", "qwen3.5", "qwen3_moe"}
# Where a model is not cut between ranks as the others are: false keeps a part whole.
_BY_EXPERTS = {"attn": False, "moe": False}
PARALLEL: dict[str, dict[str, bool]] = {
    "bailing_2_5": {"o_proj": True, "moe": False},
    "deepseek_r1": _BY_EXPERTS,
    "deepseek_v3_2_exp": _BY_EXPERTS,
    "glm_5": _BY_EXPERTS,
    "kimi_k2_thinking": _BY_EXPERTS,
    "longcat_flash": _BY_EXPERTS,
}
# They ask for groups of ranks, which their executor makes for several alone.
TWO_RANKS = {*PARALLEL, "qwen3_moe", "qwen3.5", "step3p7_flash"}
NOT_RUN = {
    "deepseek_v4, deepseek_v4_flash_tilelang_and_inductor_af, kimi_k3": "they call kernels"
    " of their own repository, or of cann_ops_transformer, which are written for NPUs",
    "glm_5_2, pangu_7b": "they have scripts of their own in place of the common executor",
    "davinci-magihuman, hunyuan-image-3.0, hunyuan-video, sana-video, wan2.2-i2v, hstu": "they are no language models: they patch repositories that are not in this one",
    "longcat-2.0": "it has no code",
}
