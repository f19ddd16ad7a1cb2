"""One program serves all lengths: a step reads only the filled part of the cache."""

from __future__ import annotations

import pytest
import torch
import transformers
from decoders import PLAIN, SPREAD, gpt2, llama, prompt

import anabranch
from anabranch import llm
from anabranch.llm import steps
from anabranch.llm.chunk_sizes import chunks
from anabranch.llm.decoding.step_masks import each

CAPACITY = 40


@pytest.fixture(autouse=True)
def short_blocks(monkeypatch):
    monkeypatch.setattr(steps, "BLOCK", 16)


def gemma2():
    """A Gemma 2, which has a mask for each kind of layer."""
    config = transformers.Gemma2Config(
        **SPREAD, num_key_value_heads=2, head_dim=8, sliding_window=8
    )
    return transformers.Gemma2ForCausalLM(config).eval()


def mixtral():
    config = transformers.MixtralConfig(
        **SPREAD, num_key_value_heads=2, num_local_experts=4, num_experts_per_tok=2
    )
    return transformers.MixtralForCausalLM(config).eval()


def qwen2_moe():
    config = transformers.Qwen2MoeConfig(
        **SPREAD,
        num_key_value_heads=2,
        num_experts=4,
        num_experts_per_tok=2,
        moe_intermediate_size=16,
        shared_expert_intermediate_size=16,
    )
    return transformers.Qwen2MoeForCausalLM(config).eval()


@pytest.mark.parametrize(
    "make", [llama, gpt2, gemma2, mixtral, qwen2_moe], ids=lambda make: make.__name__
)
def test_one_program_decodes_at_all_lengths(make):
    model = make()
    compiled = llm.compile(model, max_length=CAPACITY)
    for length, new in (
        (5, 8),
        (9, 31),
    ):  # across the ends of a block, up to the end of the cache
        arguments, tokens = PLAIN | {"max_new_tokens": new}, prompt(1, length)
        expected = model.generate(tokens, **arguments)
        found = compiled.generate(tokens, **arguments)
        assert torch.equal(found, expected)
    assert anabranch.counters.graphs == 2
    assert anabranch.counters.eager_graphs == 0


@pytest.mark.parametrize("make", [llama, gpt2, gemma2], ids=lambda make: make.__name__)
def test_a_prompt_reads_as_much_as_there_is(make, monkeypatch):
    """However large the cache is, and whether or not a call brings a mask."""
    model, widths = make(), []
    compiled = llm.compile(model, max_length=CAPACITY)

    def in_eager(_, method, tokens, mask, *rest, first=None):
        widths.extend({mask.shape[-1] for mask in each(mask)})
        return method(tokens, mask, *rest)

    monkeypatch.setattr(compiled._steps._programs, "call", in_eager)
    for length in (2, 15, 16, 17, 31, 32, 36, 39):
        tokens, arguments = prompt(1, length), PLAIN | {"max_new_tokens": 1}
        expected = model.generate(tokens, **arguments)
        cut = [
            compiled._steps.length(begin + size)
            for begin, _, size in chunks(length, CAPACITY)
        ]
        for more in ({}, {"attention_mask": torch.ones_like(tokens)}):
            widths.clear()
            found = compiled.generate(tokens, **arguments, **more)
            assert torch.equal(found, expected)
            assert widths == cut


def test_places_after_a_length_are_not_read():
    model, tokens = llama(), prompt(1, 3)
    compiled = llm.compile(model, max_length=CAPACITY)
    compiled.prepare(3)
    cache = compiled._key_values.make(1)
    mask = torch.ones(1, 1, 3, CAPACITY, dtype=torch.bool).tril()
    for column in range(3):
        for layer in cache.layers:
            layer.keys[:, :, 16:], layer.values[:, :, 16:] = torch.nan, torch.nan
        found = compiled.model(
            input_ids=tokens[:, column : column + 1],
            attention_mask=mask[:, :, column : column + 1],
            position_ids=torch.tensor([[column]]),
            past_key_values=cache,
        )
    with torch.no_grad():
        expected = model(tokens).logits[:, -1:]
    torch.testing.assert_close(found.logits, expected)
    assert anabranch.counters.graphs == 2  # the strides of a column add no graph


def test_a_later_start_reads_all_lengths(tmp_path, monkeypatch):
    monkeypatch.delenv("ANABRANCH_CACHE", raising=False)
    model, results, tokens = llama(), [], prompt(1, 5)
    for new in (2, 30):
        torch._dynamo.reset()
        compiled = llm.compile(model, max_length=CAPACITY, cache_dir=tmp_path)
        arguments = PLAIN | {"max_new_tokens": new}
        results.append(compiled.generate(tokens, **arguments))
    assert anabranch.last_report()["cache"] == "hit"
    expected = model.generate(tokens, **PLAIN, max_new_tokens=30)
    assert torch.equal(results[1], expected)
    assert torch.equal(results[0], expected[:, :7])


def test_models_of_several_lengths_share_a_cache(tmp_path, monkeypatch):
    """The key of a program has the length: the tensors of a cache of keys and values are
    inside an object."""
    monkeypatch.delenv("ANABRANCH_CACHE", raising=False)
    model, tokens = llama(), prompt(1, 5)
    expected = model.generate(tokens, **PLAIN, max_new_tokens=9)
    for length in (CAPACITY, CAPACITY + 24, CAPACITY):
        torch._dynamo.reset()
        compiled = llm.compile(model, max_length=length, cache_dir=tmp_path)
        found = compiled.generate(tokens, **PLAIN, max_new_tokens=9)
        assert torch.equal(found, expected)
    assert anabranch.last_report()["cache"] == "hit"
