"""Architectures with unusual parts equal eager: relative positions by gathers, shifted
windows, state spaces, experts, convolutions beside attention."""

from __future__ import annotations

import pytest
import torch
from small_models import SMALL, tensors, words

import anabranch
from anabranch.backend import anabranch as backend

transformers = pytest.importorskip("transformers")

ONE = SMALL | {"num_hidden_layers": 1}


def deberta():
    config = transformers.DebertaV2Config(
        **ONE,
        relative_attention=True,
        pos_att_type=["p2c", "c2p"],
        position_buckets=8,
        max_position_embeddings=64,
    )
    return transformers.DebertaV2Model(config), {"input_ids": words()}


def swin():
    config = transformers.SwinConfig(
        image_size=16,
        patch_size=2,
        embed_dim=8,
        depths=[2],
        num_heads=[2],
        window_size=4,
    )
    model = transformers.SwinModel(config)
    return model, {"pixel_values": torch.randn(2, 3, 16, 16)}


def rwkv():
    config = transformers.RwkvConfig(
        hidden_size=32,
        num_hidden_layers=2,
        attention_hidden_size=32,
        intermediate_size=64,
        vocab_size=99,
    )
    return transformers.RwkvForCausalLM(config), {"input_ids": words()}


def deepseek():
    config = transformers.DeepseekV3Config(
        **ONE,
        num_key_value_heads=4,
        q_lora_rank=16,
        kv_lora_rank=16,
        qk_nope_head_dim=8,
        qk_rope_head_dim=8,
        v_head_dim=8,
        n_routed_experts=8,
        num_experts_per_tok=2,
        moe_intermediate_size=16,
        first_k_dense_replace=0,
        n_group=2,
        topk_group=1,
    )
    return transformers.DeepseekV3ForCausalLM(config), {"input_ids": words()}


def whisper():
    config = transformers.WhisperConfig(
        d_model=32,
        encoder_layers=1,
        decoder_layers=1,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=64,
        decoder_ffn_dim=64,
        vocab_size=99,
        num_mel_bins=16,
        max_source_positions=30,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=1,
    )
    model = transformers.WhisperForConditionalGeneration(config)
    features = torch.randn(2, 16, 60)
    return model, {"input_features": features, "decoder_input_ids": words(5)}


def detr():
    backbone = transformers.ResNetConfig(
        embedding_size=8,
        hidden_sizes=[8, 16],
        depths=[1, 1],
        out_features=["stage2"],
    )
    config = transformers.DetrConfig(
        backbone_config=backbone,
        use_timm_backbone=False,
        use_pretrained_backbone=False,
        backbone=None,
        d_model=32,
        encoder_layers=1,
        decoder_layers=1,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=32,
        decoder_ffn_dim=32,
        num_queries=6,
    )
    model = transformers.DetrForObjectDetection(config)
    return model, {"pixel_values": torch.randn(2, 3, 32, 32)}


@pytest.mark.parametrize(
    "make",
    [deberta, swin, rwkv, deepseek, whisper, detr],
    ids=lambda make: make.__name__,
)
def test_architecture(make):
    model, inputs = make()
    model = model.eval()
    run = torch.compile(model, backend=backend, dynamic=False, fullgraph=True)
    with torch.no_grad():
        expected, actual = tensors(model(**inputs)), tensors(run(**inputs))
    assert len(actual) == len(expected) > 0
    for got, want in zip(actual, expected):
        torch.testing.assert_close(got, want, rtol=1e-3, atol=1e-4)
    assert anabranch.counters.eager_graphs == 0
