"""Architectures with a part of their own give eager's tokens, in f32: biases of distances,
several query heads for one key, positions with an offset, norms of queries."""

from __future__ import annotations

import pytest
import torch
import transformers
from decoders import PLAIN, SPREAD, llama, prompt

import anabranch
from anabranch import llm

ONE = SPREAD | {"num_hidden_layers": 1}
FEW_KEYS = ONE | {"num_key_value_heads": 2}


def qwen3():
    config = transformers.Qwen3Config(**FEW_KEYS, head_dim=8)
    return transformers.Qwen3ForCausalLM(config)


def gemma3():
    """A Gemma 3 with a layer of each kind, and a window shorter than the prompts."""
    config = transformers.Gemma3TextConfig(
        **FEW_KEYS | {"num_hidden_layers": 2},
        head_dim=8,
        sliding_window=8,
        layer_types=["sliding_attention", "full_attention"],
    )
    return transformers.Gemma3ForCausalLM(config)


def phi():
    return transformers.PhiForCausalLM(transformers.PhiConfig(**FEW_KEYS))


def gpt_neox():
    return transformers.GPTNeoXForCausalLM(transformers.GPTNeoXConfig(**ONE))


def falcon():
    config = transformers.FalconConfig(
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=4,
        vocab_size=99,
        initializer_range=0.5,
    )
    return transformers.FalconForCausalLM(config)


def bloom():
    config = transformers.BloomConfig(
        hidden_size=32, n_layer=1, n_head=4, vocab_size=99, initializer_range=0.5
    )
    return transformers.BloomForCausalLM(config)


def opt():
    config = transformers.OPTConfig(
        hidden_size=32,
        word_embed_proj_dim=32,
        ffn_dim=64,
        num_hidden_layers=1,
        num_attention_heads=4,
        vocab_size=99,
        max_position_embeddings=64,
        init_std=0.5,
    )
    return transformers.OPTForCausalLM(config)


# The others have the parts of these in other places.
SLOW = [pytest.param(make, marks=pytest.mark.slow) for make in (qwen3, phi, gpt_neox)]


@pytest.mark.parametrize(
    "make", [gemma3, falcon, bloom, opt, *SLOW], ids=lambda make: make.__name__
)
def test_tokens_of_padded_rows_equal_eager(make):
    model = make().eval()
    compiled = llm.compile(model, max_batch=2, max_length=40)
    tokens, mask = prompt(2, 12), torch.ones(2, 12, dtype=torch.long)
    mask[0, :4] = 0
    settings = PLAIN | {"max_new_tokens": 10, "attention_mask": mask}
    expected = model.generate(tokens, **settings)
    assert torch.equal(compiled.generate(tokens, **settings), expected)
    assert anabranch.counters.graphs == 2
    assert anabranch.counters.eager_graphs == 0


def test_calls_that_are_no_step_run_in_pytorch_with_the_same_cache():
    model = llama()
    compiled = llm.compile(model, max_length=40)
    settings = PLAIN | {"max_new_tokens": 4, "return_dict_in_generate": True}
    tokens = prompt(1, 8)
    found, expected = (
        one.generate(tokens, output_hidden_states=True, **settings)
        for one in (compiled, model)
    )
    assert torch.equal(found.sequences, expected.sequences)
    torch.testing.assert_close(
        found.hidden_states, expected.hidden_states, rtol=1e-4, atol=1e-4
    )
    assert anabranch.counters.graphs == 0
