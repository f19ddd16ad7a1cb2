"""anabranch.llm: tokens equal those of eager PyTorch, in f32."""

from __future__ import annotations

import pytest
import torch
from small_models import SMALL

import anabranch

transformers = pytest.importorskip("transformers")
llm = pytest.importorskip("anabranch.llm")
steps = pytest.importorskip("anabranch.llm.steps")

# Large weights: the tokens of a model with small ones hardly depend on its input.
SPREAD = SMALL | {"initializer_range": 0.5}
PLAIN = {"do_sample": False, "eos_token_id": None, "pad_token_id": 0}


def llama():
    config = transformers.LlamaConfig(**SPREAD, num_key_value_heads=2)
    return transformers.LlamaForCausalLM(config).eval()


def qwen2():
    config = transformers.Qwen2Config(**SPREAD, num_key_value_heads=2)
    return transformers.Qwen2ForCausalLM(config).eval()


def mistral():
    """The window is shorter than the prompts."""
    config = transformers.MistralConfig(
        **SPREAD, num_key_value_heads=2, sliding_window=8
    )
    return transformers.MistralForCausalLM(config).eval()


def gpt2():
    config = transformers.GPT2Config(
        n_embd=32,
        n_layer=2,
        n_head=4,
        vocab_size=99,
        n_positions=64,
        initializer_range=0.5,
        bos_token_id=1,
        eos_token_id=2,
    )
    return transformers.GPT2LMHeadModel(config).eval()


def gemma2():
    """A mask for each kind of layer."""
    config = transformers.Gemma2Config(
        **SPREAD, num_key_value_heads=2, head_dim=8, sliding_window=8
    )
    return transformers.Gemma2ForCausalLM(config).eval()


def prompt(rows: int, length: int) -> torch.Tensor:
    return torch.randint(3, 99, (rows, length))


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
    # Another length of the same chunks, up to the last place of the cache.
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
    # Without a static cache the model runs as it is.
    assert_same(model, compiled, tokens, use_cache=False, max_new_tokens=4)
    assert_same(model, compiled, tokens, prompt_lookup_num_tokens=2, max_new_tokens=6)


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
    """All logits that a caller asks for, close to eager's."""
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
        for begin, end, size in steps.chunks(count, room):
            assert begin == at < end <= begin + size <= room
            assert size & (size - 1) == 0
            at = end
        assert at == count


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
    """Another model of the same class does not meet the first one's weights."""
    for _ in range(2):
        model = llama()
        compiled = llm.compile(model, max_length=24)
        assert_same(model, compiled, prompt(1, 5), max_new_tokens=6)
