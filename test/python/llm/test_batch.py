"""Continuous batching: a request gets the same tokens in a batch as alone."""

from __future__ import annotations

import random

import pytest
import torch
import transformers
from decoders import PLAIN, SPREAD, gpt2, llama, prompt

import anabranch
from anabranch import llm, memory
from anabranch.llm.batching.blocks import BLOCK, Blocks, blocks_for


def gemma2():
    """A Gemma 2 whose windows, in every other layer, are shorter than the prompts."""
    config = transformers.Gemma2Config(
        **SPREAD, num_key_value_heads=2, head_dim=8, sliding_window=8
    )
    return transformers.Gemma2ForCausalLM(config).eval()


def third_of_a_token(input_ids, scores, **_):
    return input_ids[:, -1] % 3 == 0


def answers_alone(model, prompts, settings):
    found = []
    for number, (tokens, more) in enumerate(zip(prompts, settings)):
        torch.manual_seed(number)
        found.append(model.generate(tokens, **(PLAIN | more))[0].tolist())
    return found


@pytest.mark.parametrize("make", [llama, gpt2, gemma2], ids=lambda make: make.__name__)
def test_random_arrivals_get_the_tokens_that_they_get_alone(make):
    """Requests of random lengths join at random steps, wait for blocks, and leave."""
    model, chance = make(), random.Random(make.__name__)
    compiled = llm.compile(model, max_batch=3, max_length=64)
    prompts = [prompt(1, chance.randint(1, 40)) for _ in range(9)]
    third = transformers.StoppingCriteriaList([third_of_a_token])
    ways = [
        {},
        {"do_sample": True, "top_k": 20},
        {"repetition_penalty": 1.3},
        {"eos_token_id": [*range(0, 90, 7)]},
        {"stopping_criteria": third},
    ]
    settings = [
        {"max_new_tokens": chance.randint(1, 20)} | chance.choice(ways) for _ in prompts
    ]
    expected = answers_alone(model, prompts, settings)
    batch = compiled.batch(cache_tokens=5 * BLOCK)
    requests, steps = [], 0
    while len(requests) < len(prompts) or batch.waiting or batch.running:
        number = len(requests)
        if number < len(prompts) and chance.random() < 0.4:
            more = PLAIN | settings[number]
            requests.append(batch.add(prompts[number], seed=number, **more))
        batch.step()
        steps += 1
    assert [request.tokens for request in requests] == expected
    assert steps < sum(len(request.answer) for request in requests)
    # All blocks came back: the whole pool is free for one more request.
    largest = batch.add(prompt(1, 40), max_new_tokens=24, **PLAIN)
    batch.run()
    assert largest.done
    assert anabranch.counters.eager_graphs == 0


def test_the_last_request_gives_its_blocks_to_earlier_ones():
    """Three requests begin in a pool that has blocks for the end of one alone."""
    model = llama()
    compiled = llm.compile(model, max_batch=3, max_length=4 * BLOCK)
    prompts = [prompt(1, length) for length in (20, 9, 30)]
    ways = [{}, {"do_sample": True, "top_k": 20}, {"repetition_penalty": 1.3}]
    settings = [more | {"max_new_tokens": 70} for more in ways]
    expected = answers_alone(model, prompts, settings)
    batch = compiled.batch(cache_tokens=4 * BLOCK)
    requests = [
        batch.add(tokens, seed=number, **(PLAIN | more))
        for number, (tokens, more) in enumerate(zip(prompts, settings))
    ]
    together, interrupted = 0, set()
    while batch.waiting or batch.running:
        together = max(together, len(batch.running))
        interrupted |= {requests.index(r) for r in batch.waiting if r.answer}
        order = [requests.index(r) for r in (*batch.running, *batch.waiting)]
        assert order == sorted(order)
        owned = [block for r in requests for block in r._blocks]
        assert len(set(owned)) == len(owned) == 4 - batch._blocks.free
        batch.step()
    assert [request.tokens for request in requests] == expected
    assert together > 1 and interrupted and 0 not in interrupted
    assert batch._blocks.free == 4


def test_generate_batch_returns_prompts_with_answers():
    model = llama()
    compiled = llm.compile(model, max_batch=2, max_length=40)
    prompts = [prompt(1, length) for length in (3, 17, 9, 1)]
    expected = answers_alone(model, prompts, [{"max_new_tokens": 6}] * 4)
    found = compiled.generate_batch(
        [tokens[0].tolist() for tokens in prompts], max_new_tokens=6, **PLAIN
    )
    assert [tokens.tolist() for tokens in found] == expected
    assert compiled.generate_batch([]) == []


def test_a_request_ends_at_its_last_token():
    model = llama()
    compiled = llm.compile(model, max_batch=2, max_length=40)
    tokens = prompt(1, 5)
    free = model.generate(tokens, max_new_tokens=12, **PLAIN)[0].tolist()
    settings = PLAIN | {"eos_token_id": free[9], "max_new_tokens": 12}
    expected = model.generate(tokens, **settings)[0].tolist()
    seen = []

    class Streamer:
        def put(self, value):
            seen.extend(value.flatten().tolist())

        def end(self):
            seen.append("end")

    batch = compiled.batch()
    ended = batch.add(tokens, streamer=Streamer(), **settings)
    cancelled = batch.add(tokens, max_new_tokens=30, **PLAIN)
    for _ in range(4):
        batch.step()
    batch.cancel(cancelled)
    batch.run()
    assert ended.tokens == expected
    assert seen == [*expected, "end"]
    assert cancelled.done
    assert cancelled.tokens == free[: len(cancelled.tokens)]
    assert batch.step() == []


def test_programs_serve_all_lengths():
    """The numbers of rows and tokens choose a program; the length of the cache does not."""
    compiled = llm.compile(llama(), max_batch=4, max_length=256)
    compiled.generate_batch([prompt(1, 16)], max_new_tokens=2, **PLAIN)
    before = anabranch.counters.graphs
    compiled.generate_batch([prompt(1, 190)], max_new_tokens=40, **PLAIN)
    compiled.generate_batch([prompt(1, 12)], max_new_tokens=40, **PLAIN)
    # The long prompt needs one more size of chunks.
    assert anabranch.counters.graphs == before + 1


def test_blocks_belong_to_one_request():
    blocks, chance, owned = Blocks(17), random.Random(3), []
    for _ in range(500):
        if owned and chance.random() < 0.5:
            blocks.give_back(owned.pop(chance.randrange(len(owned))))
        else:
            count = chance.randint(1, 6)
            taken = blocks.take(count)
            assert (taken is None) == (count > 17 - sum(map(len, owned)))
            owned += [taken] if taken else []
        used = [block for some in owned for block in some]
        assert len(set(used)) == len(used) == 17 - blocks.free
        assert set(used) <= set(range(17))
    assert [blocks_for(n) for n in (1, BLOCK, BLOCK + 1)] == [1, 1, 2]


def bloom():
    config = transformers.BloomConfig(
        vocab_size=99, hidden_size=32, n_layer=1, n_head=2
    )
    return transformers.BloomForCausalLM(config).eval()


@pytest.mark.parametrize(
    ("given", "settings", "text"),
    [
        ([], {}, "at least one token"),
        ([1.5], {}, "at least one token"),
        ([[1, 2], [3, 4]], {}, "at least one token"),
        ([1], {"num_beams": 2}, "asks for beam search"),
        ([1], {"num_return_sequences": 2, "do_sample": True}, "asks for sample with 2"),
        ([1], {"colour": 1}, "takes no colour"),
        ([1], {"max_new_tokens": 32}, "may reach 33 tokens and a row holds 32"),
        ([1], {"max_new_tokens": 31, "max_length": None}, None),
        ([1, 2, 3], {"max_length": 3}, "ends at 3: ask for more"),
    ],
)
def test_requests_that_are_refused(given, settings, text):
    batch = llm.compile(llama(), max_length=32).batch()
    if text is None:
        assert not batch.add(given, **settings).done
        return
    with pytest.raises(ValueError, match=text):
        batch.add(given, **settings)
    assert not batch.waiting


def test_pools_and_models_that_are_refused(monkeypatch):
    compiled = llm.compile(llama(), max_length=64)
    with pytest.raises(ValueError, match="cache_tokens must be a positive int"):
        compiled.batch(cache_tokens=0)
    small = compiled.batch(cache_tokens=BLOCK)
    with pytest.raises(ValueError, match="more than the whole pool"):
        small.add([1, 2], max_new_tokens=BLOCK)
    monkeypatch.setattr(memory, "available", lambda: 1000)
    with pytest.raises(MemoryError, match="smaller cache_tokens"):
        compiled.batch()
    monkeypatch.undo()
    with pytest.raises(ValueError, match="use generate"):
        llm.compile(bloom(), max_length=32).batch()
