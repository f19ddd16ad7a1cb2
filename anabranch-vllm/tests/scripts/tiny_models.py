"""Architectures with random weights, as fields of transformers' configurations."""

from __future__ import annotations

from typing import Any

import rounded_models

VOCABULARY = 512
_COMMON = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "vocab_size": VOCABULARY,
    "max_position_embeddings": 256,
    "initializer_range": 0.15,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}
ENCODER = _COMMON
_GROUPED = _COMMON | {"num_key_value_heads": 1, "head_dim": 32}
_FOUR_HEADS = _COMMON | {"num_attention_heads": 4, "head_dim": 32}
_EXPERTS = {
    "moe_intermediate_size": 64,
    "num_experts_per_tok": 2,
    "norm_topk_prob": True,
}
_LATENT = {
    "kv_lora_rank": 512,
    "q_lora_rank": 32,
    "qk_nope_head_dim": 32,
    "qk_rope_head_dim": 64,
    "v_head_dim": 32,
    "num_key_value_heads": 2,
    "n_routed_experts": 4,
    "n_shared_experts": 1,
    "n_group": 2,
    "topk_group": 1,
    "first_k_dense_replace": 1,
    "topk_method": "noaux_tc",
    "scoring_func": "sigmoid",
}

# By name: transformers' type of the model, and its fields.
GENERATE: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("llama", _GROUPED),
    "llama_of_four_heads": ("llama", _FOUR_HEADS),
    "qwen2": ("qwen2", _GROUPED),
    "qwen3": ("qwen3", _GROUPED),
    "qwen3_moe": (
        "qwen3_moe",
        _GROUPED | _EXPERTS | {"num_experts": 4, "decoder_sparse_step": 1},
    ),
    "gemma3": (
        "gemma3_text",
        _GROUPED
        | {
            "sliding_window": 16,
            "layer_types": ["sliding_attention", "full_attention"],
            "query_pre_attn_scalar": 32,
        },
    ),
    "mistral": ("mistral", _GROUPED | {"sliding_window": 16}),
    "phi": ("phi", _COMMON | {"partial_rotary_factor": 0.5}),
    "gpt2": (
        "gpt2",
        {
            "n_embd": 64,
            "n_layer": 2,
            "n_head": 2,
            "n_positions": 256,
            "vocab_size": VOCABULARY,
            "initializer_range": 0.15,
            "bos_token_id": 1,
            "eos_token_id": 2,
        },
    ),
    "opt": (
        "opt",
        _COMMON | {"ffn_dim": 128, "word_embed_proj_dim": 64, "init_std": 0.15},
    ),
    "deepseek_v3": ("deepseek_v3", _COMMON | _EXPERTS | _LATENT),
    # Checkpoints whose weights are rounded, by their formats.
    **dict.fromkeys(rounded_models.FORMATS, ("llama", _GROUPED)),
}
# The same models with the floats that some of the formats stand for.
FLOATS = {f"{name}_floats": ("llama", _GROUPED) for name in rounded_models.FLOATS}
EMBED: dict[str, tuple[str, dict[str, Any]]] = {
    "bert": ("bert", ENCODER),
    "qwen3_embedding": ("qwen3", _GROUPED),
}
# By name: a model above, and arguments of vLLM. n_gram is the last one: a process that
# has had it starts no other engine.
WAYS: dict[str, tuple[str, dict[str, Any]]] = {
    "chunked_prefill": ("llama", {"max_num_batched_tokens": 16}),
    "prefix_cache": ("llama", {"enable_prefix_caching": True, "block_size": 32}),
    "tensor_parallel": ("llama", {"tensor_parallel_size": 2}),
    "wide_tensor_parallel": ("llama_of_four_heads", {"tensor_parallel_size": 4}),
    "pipeline_parallel": ("llama", {"pipeline_parallel_size": 2}),
    "draft_model": (
        "llama",
        {
            "speculative_config": {
                "method": "draft_model",
                "model": "llama",
                "num_speculative_tokens": 2,
            }
        },
    ),
    "n_gram": (
        "llama",
        {
            "speculative_config": {
                "method": "ngram",
                "num_speculative_tokens": 3,
                "prompt_lookup_max": 3,
            }
        },
    ),
}

# Ways that vLLM's own eager mode does not run: only a warm-up, which eager mode leaves
# out, makes the memory into which the second rank of a pipeline receives.
COMPILED_ALONE = ("pipeline_parallel",)


def write(name: str, folder: str) -> None:
    """Writes a model with random weights in float32."""
    import torch
    import transformers

    kind, fields = (GENERATE | EMBED | FLOATS)[name]
    config = transformers.AutoConfig.for_model(kind, **fields)
    is_encoder = kind == "bert"
    auto = transformers.AutoModel if is_encoder else transformers.AutoModelForCausalLM
    torch.manual_seed(0)
    auto.from_config(config).float().save_pretrained(folder)
    if name in rounded_models.FORMATS or name in FLOATS:
        rounded_models.round_weights(folder, name)
    if name in EMBED:
        tokenizer().save_pretrained(folder)


def tokenizer() -> Any:
    """A tokenizer with a word for each token. vLLM embeds nothing without one."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = {f"w{i}": i for i in range(VOCABULARY)}
    made = Tokenizer(models.WordLevel(words, unk_token="w0"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=made)
