"""transformers compiles in its own ways, with this backend: tokens equal eager's."""

from __future__ import annotations

import pytest
import torch
from small_models import SMALL

import anabranch

transformers = pytest.importorskip("transformers")

PLAIN = {
    "do_sample": False,
    "eos_token_id": None,
    "pad_token_id": 0,
    "max_new_tokens": 8,
}


def llama():
    config = transformers.LlamaConfig(
        **SMALL, num_key_value_heads=2, initializer_range=0.5
    )
    return transformers.LlamaForCausalLM(config).eval()


def t5():
    """A T5, whose encoder reads rows of different lengths."""
    config = transformers.T5Config(
        vocab_size=99,
        d_model=32,
        d_kv=8,
        d_ff=64,
        num_layers=1,
        num_heads=4,
        initializer_factor=4.0,
        decoder_start_token_id=0,
    )
    mask = torch.ones((2, 6), dtype=torch.long)
    mask[0, 4:] = 0
    given = {"input_ids": torch.randint(3, 99, (2, 6)), "attention_mask": mask}
    return transformers.T5ForConditionalGeneration(config).eval(), given


def whisper():
    """A Whisper, whose encoder reads sound."""
    config = transformers.WhisperConfig(
        vocab_size=99,
        d_model=32,
        encoder_layers=1,
        decoder_layers=1,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=64,
        decoder_ffn_dim=64,
        num_mel_bins=16,
        max_source_positions=12,
        max_target_positions=16,
        init_std=0.5,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=3,
        suppress_tokens=None,
        begin_suppress_tokens=None,
    )
    model = transformers.WhisperForConditionalGeneration(config).eval()
    return model, {"input_features": torch.randn(2, 16, 24)}


def settings_for_cpus(everywhere: bool = True):
    settings = transformers.CompileConfig(backend="anabranch", mode=None)
    settings._compile_all_devices = everywhere
    return settings


def test_compile_config_on_a_cpu():
    """transformers skips compilation on CPUs unless its private field is set."""
    model, tokens = llama(), torch.randint(3, 99, (1, 6))
    expected = model.generate(tokens, **PLAIN)
    for everywhere in (False, True):
        actual = model.generate(
            tokens,
            cache_implementation="static",
            compile_config=settings_for_cpus(everywhere),
            **PLAIN,
        )
        assert torch.equal(actual, expected)
        assert (anabranch.counters.graphs > 0) is everywhere


@pytest.mark.parametrize("make", [t5, whisper], ids=lambda make: make.__name__)
def test_decoders_after_encoders(make):
    """Keys and values of the encoder are part of the cache."""
    model, given = make()
    expected = model.generate(**given, **PLAIN)
    assert len(expected.unique()) > 5
    actual = model.generate(
        **given,
        cache_implementation="static",
        compile_config=settings_for_cpus(),
        **PLAIN,
    )
    assert torch.equal(actual, expected)
    assert anabranch.counters.graphs == 1
    assert anabranch.counters.eager_graphs == 0


@pytest.mark.slow
@pytest.mark.parametrize("make", [t5, whisper], ids=lambda make: make.__name__)
def test_compiled_forward_of_encoder_and_decoder(make):
    """One program reads the encoder's result for the first time, one has read it."""
    model, given = make()
    expected = model.generate(**given, **PLAIN)
    model.forward = torch.compile(model.forward, backend="anabranch", dynamic=True)
    actual = model.generate(**given, cache_implementation="static", **PLAIN)
    assert torch.equal(actual, expected)
    assert anabranch.counters.graphs == 2
    assert anabranch.counters.eager_graphs == 0


@pytest.mark.parametrize("cache", [None, "static"], ids=["dynamic", "static"])
def test_compiled_forward(cache):
    model, tokens = llama(), torch.randint(3, 99, (2, 6))
    expected = model.generate(tokens, **PLAIN)
    model.forward = torch.compile(model.forward, backend="anabranch", dynamic=True)
    actual = model.generate(tokens, cache_implementation=cache, **PLAIN)
    assert torch.equal(actual, expected)
    assert anabranch.counters.graphs > 0
