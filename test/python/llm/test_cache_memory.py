"""Calls of generate() use the memory of one cache, one after the other."""

from __future__ import annotations

import pytest
import torch
from decoders import PLAIN, llama, prompt

from anabranch import llm

CAPACITY = 40


@pytest.fixture(scope="module")
def model():
    return llama()


@pytest.fixture(scope="module")
def compiled(model):
    return llm.compile(model, max_batch=4, max_length=CAPACITY)


def memory_of(compiled):
    return [cache.layers[0].keys.data_ptr() for cache in compiled._key_values._spare]


def test_later_answers_are_those_of_new_memory(model, compiled):
    memories = []
    for length, new in ((20, 19), (3, 4), (11, 20)):
        arguments, tokens = PLAIN | {"max_new_tokens": new}, prompt(1, length)
        found = compiled.generate(tokens, **arguments)
        assert torch.equal(found, model.generate(tokens, **arguments))
        memories += memory_of(compiled)
    assert len(memories) == 3 and len(set(memories)) == 1


@pytest.mark.parametrize(
    "arguments",
    [
        {"num_beams": 2},
        {"prompt_lookup_num_tokens": 3},
        {"num_return_sequences": 3, "do_sample": True},
        {"output_scores": True},
    ],
    ids=lambda arguments: next(iter(arguments)),
)
def test_the_memory_is_empty_between_calls(compiled, arguments):
    # What Dynamo traced in the first call may keep its cache for a while.
    for _ in range(2):
        compiled.generate(prompt(1, 9), **PLAIN | {"max_new_tokens": 9} | arguments)
    (cache,) = compiled._key_values._spare
    for layer in cache.layers:
        assert not layer.keys.any() and not layer.values.any()
        assert int(layer.cumulative_length) == 0


def test_a_cache_that_the_caller_has_stays(compiled):
    arguments = PLAIN | {"max_new_tokens": 4}
    result = compiled.generate(prompt(1, 5), return_dict_in_generate=True, **arguments)
    keys = result.past_key_values.layers[0].keys
    before = keys.clone()
    assert before.any()
    compiled.generate(prompt(1, 7), **arguments)
    assert torch.equal(keys, before)
