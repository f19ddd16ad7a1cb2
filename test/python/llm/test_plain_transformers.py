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


def test_compile_config_on_a_cpu():
    """transformers skips compilation on CPUs unless its private field is set."""
    model, tokens = llama(), torch.randint(3, 99, (1, 6))
    expected = model.generate(tokens, **PLAIN)
    for everywhere in (False, True):
        settings = transformers.CompileConfig(backend="anabranch", mode=None)
        settings._compile_all_devices = everywhere
        actual = model.generate(
            tokens, cache_implementation="static", compile_config=settings, **PLAIN
        )
        assert torch.equal(actual, expected)
        assert (anabranch.counters.graphs > 0) is everywhere


@pytest.mark.parametrize("cache", [None, "static"], ids=["dynamic", "static"])
def test_compiled_forward(cache):
    model, tokens = llama(), torch.randint(3, 99, (2, 6))
    expected = model.generate(tokens, **PLAIN)
    model.forward = torch.compile(model.forward, backend="anabranch", dynamic=True)
    actual = model.generate(tokens, cache_implementation=cache, **PLAIN)
    assert torch.equal(actual, expected)
    assert anabranch.counters.graphs > 0
