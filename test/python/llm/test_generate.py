"""anabranch.llm: tokens equal those of eager PyTorch, in f32."""

from __future__ import annotations

import pytest
import torch
import transformers
from decoders import PLAIN, SPREAD, gpt2, llama, prompt

import anabranch
from anabranch import llm
from anabranch.llm import chunk_sizes


def qwen2():
    config = transformers.Qwen2Config(**SPREAD, num_key_value_heads=2)
    return transformers.Qwen2ForCausalLM(config).eval()


def mistral():
    """A Mistral whose window is shorter than the prompts."""
    config = transformers.MistralConfig(
        **SPREAD, num_key_value_heads=2, sliding_window=8
    )
    return transformers.MistralForCausalLM(config).eval()


def gemma2():
    """A Gemma 2, which has a mask for each kind of layer."""
    config = transformers.Gemma2Config(
        **SPREAD, num_key_value_heads=2, head_dim=8, sliding_window=8
    )
    return transformers.Gemma2ForCausalLM(config).eval()


def assert_same(model, compiled, tokens, **arguments):
    arguments = PLAIN | arguments
    expected = model.generate(tokens, **arguments)
    actual = compiled.generate(tokens, **arguments)
    assert torch.equal(actual, expected)
    return expected


@pytest.mark.parametrize(
    "make", [llama, qwen2, mistral, gpt2, gemma2], ids=lambda make: make.__name__
)
def test_tokens_equal_eager(make):
    model = make()
    compiled = llm.compile(model, max_batch=2, max_length=40)
    expected = assert_same(model, compiled, prompt(1, 18), max_new_tokens=12)
    assert expected.unique().numel() > 8
    assert anabranch.counters.graphs == 2
    assert anabranch.counters.eager_graphs == 0
    # A prompt of another length and the same chunks, up to the end of the cache.
    assert_same(model, compiled, prompt(1, 28), max_new_tokens=12)
    assert anabranch.counters.graphs == 2
    tokens, mask = prompt(2, 9), torch.ones(2, 9, dtype=torch.long)
    mask[0, :4] = 0
    assert_same(model, compiled, tokens, attention_mask=mask, max_new_tokens=8)


def test_ways_to_generate():
    model = llama()
    compiled = llm.compile(model, max_batch=3, max_length=32)
    tokens = prompt(1, 7)
    assert_same(model, compiled, tokens, num_beams=3, max_new_tokens=6)
    for arguments in (
        {"do_sample": True, "top_k": 5, "temperature": 2.0},
        {"repetition_penalty": 1.5},
    ):
        results = []
        for one in (model, compiled):
            torch.manual_seed(1)
            results.append(
                one.generate(tokens, **(PLAIN | arguments), max_new_tokens=6)
            )
        assert torch.equal(*results)
    # With another kind of cache, the model itself runs, not the compiled steps.
    assert_same(model, compiled, tokens, use_cache=False, max_new_tokens=4)


def test_several_tokens_are_checked_at_once():
    """Prompt lookup and an assistant give the tokens of greedy decoding."""
    model, assistant = llama(), llama()
    compiled = llm.compile(model, max_length=64)
    pattern = prompt(1, 6)
    tokens = torch.cat([pattern, pattern, pattern[:, :3]], 1)
    expected = model.generate(tokens, max_new_tokens=16, **PLAIN)
    for more in (
        {"prompt_lookup_num_tokens": 3},
        {"assistant_model": assistant},
        {"assistant_model": model},
    ):
        anabranch.counters.reset()
        found = compiled.generate(tokens, max_new_tokens=16, **PLAIN, **more)
        assert torch.equal(found, expected)
    assert anabranch.counters.eager_graphs == 0
    # The chunks of the prompt, one of 16 tokens for all checks, and one of 1 token.
    assert len(compiled._steps._programs) <= 4


def test_streamer_and_stopping():
    class Streamer(transformers.generation.streamers.BaseStreamer):
        def __init__(self):
            self.values, self.ended = [], 0

        def put(self, value):
            self.values.append(value)

        def end(self):
            self.ended += 1

    compiled, tokens, seen = (
        llm.compile(llama(), max_length=32),
        prompt(1, 5),
        Streamer(),
    )
    result = compiled.generate(tokens, streamer=seen, max_new_tokens=6, **PLAIN)
    assert torch.equal(seen.values[0], tokens)
    assert [value.item() for value in seen.values[1:]] == result[0, 5:].tolist()
    assert seen.ended == 1

    def third(input_ids, scores, **_):
        return torch.full((1,), input_ids.shape[1] >= 8)

    stop = transformers.StoppingCriteriaList([third])
    result = compiled.generate(
        tokens, stopping_criteria=stop, max_new_tokens=20, **PLAIN
    )
    assert result.shape == (1, 8)
    assert compiled.generate(tokens, max_length=32, **PLAIN).shape == (1, 32)


def test_logits_of_a_padded_chunk():
    """A caller that asks for all logits gets them, close to eager's."""
    model = llama()
    compiled = llm.compile(model, max_length=32)
    tokens = prompt(1, 11)
    arguments = PLAIN | {"max_new_tokens": 3, "return_dict_in_generate": True}
    expected = model.generate(tokens, output_logits=True, **arguments)
    actual = compiled.generate(tokens, output_logits=True, **arguments)
    for got, want in zip(actual.logits, expected.logits, strict=True):
        torch.testing.assert_close(got, want, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("room", [1, 5, 16, 17, 40, 600, 1500])
def test_chunks_cover_the_prompt(room):
    for count in range(1, room + 1):
        at = 0
        for begin, end, size in chunk_sizes.chunks(count, room):
            assert begin == at < end <= begin + size <= room
            at = end
        assert at == count


def test_chunks_waste_little():
    """Only the last chunk has padding: less than 16 tokens, or less than its own half."""
    for count in range(2, 1500):
        parts = list(chunk_sizes.chunks(count, None))
        assert all(size in chunk_sizes.SIZES for *_, size in parts[:-1])
        assert all(end - begin == size for begin, end, size in parts[:-1])
        begin, end, size = parts[-1]
        assert size == 1 or size < max(end - begin + 16, 1.5 * (end - begin) + 1)


def test_a_later_start_does_not_compile(tmp_path, monkeypatch):
    monkeypatch.delenv("ANABRANCH_CACHE", raising=False)
    model, tokens, results = llama(), prompt(1, 5), []
    for _ in range(2):
        torch._dynamo.reset()
        compiled = llm.compile(model, max_length=24, cache_dir=tmp_path)
        compiled.prepare(5)
        results.append(compiled.generate(tokens, max_new_tokens=4, **PLAIN))
    assert torch.equal(*results)
    assert anabranch.last_report()["cache"] == "hit"


def test_weights_are_those_of_the_model():
    """A second model of the same class does not use the first one's weights."""
    for _ in range(2):
        model = llama()
        compiled = llm.compile(model, max_length=24)
        assert_same(model, compiled, prompt(1, 5), max_new_tokens=6)
