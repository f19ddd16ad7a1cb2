"""The short decoding loop gives what transformers' own loop gives, over all options."""

from __future__ import annotations

import functools
import random
import types
from typing import ClassVar

import pytest
import torch
import transformers
from decoders import SPREAD, gpt2, llama, prompt
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from transformers.generation.stopping_criteria import (
    EosTokenCriteria,
    MaxLengthCriteria,
)

from anabranch import llm
from anabranch.llm.decoding import decoding_loop, look_ahead
from anabranch.llm.sampling.calling_thread import LARGE, one_thread
from anabranch.llm.sampling.endings import Endings

ROWS, LENGTH = 3, 48


def gemma2():
    """A mask for each kind of layer, and a window shorter than the prompts."""
    config = transformers.Gemma2Config(
        **SPREAD, num_key_value_heads=2, head_dim=8, sliding_window=8
    )
    return transformers.Gemma2ForCausalLM(config).eval()


class InEager:
    """Runs steps of a short loop in PyTorch: the loops differ, and the numbers don't."""

    def __init__(self, steps):
        self._steps, self.calls = steps, 0
        self.length = steps.length

    def next_logits(self, tokens, masks, positions, cache):
        self.calls += 1
        rows = torch.zeros(1, dtype=torch.long)
        return self._steps.compute(tokens, masks, positions, rows, cache)


@functools.cache
def compiled(make):
    """The model, and the compiled one, all of whose steps run in PyTorch."""
    torch.manual_seed(0)
    model = make()
    made = llm.compile(model, max_batch=ROWS, max_length=LENGTH)
    made.model.__dict__["short_steps"] = InEager(made._steps)
    for owner in (made._steps, made._sampling, made._speculation._steps):
        owner._programs.call = lambda _, method, *args, first=None: method(*args)
    return model, made


class Seen(transformers.generation.streamers.BaseStreamer):
    def __init__(self):
        self.values = []

    def put(self, value):
        self.values.append(value.tolist())

    def end(self):
        self.values.append("end")


def third_of_a_token(input_ids, scores, **_):
    return input_ids[:, -1] % 3 == 0


def no_even_tokens(input_ids, scores):
    scores[:, ::2] = -torch.inf
    return scores


VALUES = {
    "do_sample": [True],
    "temperature": [1.7],
    "top_k": [0, 7],
    "top_p": [0.8],
    "min_p": [0.05],
    "repetition_penalty": [1.4],
    "no_repeat_ngram_size": [2],
    "min_new_tokens": [1, 5],
    "min_length": [12],
    "bad_words_ids": [[[7], [8, 9]]],
    "eos_token_id": [5, [*range(40)], [*range(0, 90, 2)]],
    "num_beams": [ROWS],
    "num_return_sequences": [2],
    "prompt_lookup_num_tokens": [2],
    "return_dict_in_generate": [True],
    "output_scores": [True],
    "output_logits": [True],
    "prefill_chunk_size": [4],
    "stopping_criteria": [[third_of_a_token]],
    "logits_processor": [[no_even_tokens]],
    "streamer": [Seen],
    "max_time": [1000.0],
}


@st.composite
def options(draw):
    names = draw(st.sets(st.sampled_from([*VALUES]), max_size=4))
    names |= draw(st.sampled_from([set(), {"do_sample"}, {"eos_token_id", "streamer"}]))
    if {"num_beams", "prompt_lookup_num_tokens"} & names:
        names -= {"streamer"}
    if "num_beams" in names:
        names -= {"prompt_lookup_num_tokens"}
    made = {name: draw(st.sampled_from(VALUES[name])) for name in sorted(names)}
    return made | {"max_new_tokens": draw(st.integers(1, 8))}


def answer(model, tokens, mask, given):
    lists = {
        "stopping_criteria": transformers.StoppingCriteriaList,
        "logits_processor": transformers.LogitsProcessorList,
    }
    made = {
        name: lists[name](value) if name in lists else value
        for name, value in given.items()
    }
    if "streamer" in made:
        made["streamer"] = Seen()
    torch.manual_seed(3)
    try:
        found = model.generate(tokens, attention_mask=mask, pad_token_id=0, **made)
    except (ValueError, NotImplementedError, TypeError, RuntimeError) as error:
        return type(error)
    streamed = made["streamer"].values if "streamer" in made else None
    if isinstance(found, torch.Tensor):
        return found, [], streamed
    return found.sequences, [*(found.scores or ()), *(found.logits or ())], streamed


@pytest.mark.parametrize("make", [llama, gpt2, gemma2], ids=lambda make: make.__name__)
@settings(
    deadline=None,
    max_examples=20,
    suppress_health_check=[*HealthCheck],
    derandomize=True,
)
@given(
    options(),
    st.integers(1, ROWS),
    st.integers(1, 14),
    st.integers(0, 4),
    st.booleans(),
)
def test_answers_equal_those_of_transformers(
    make, settings, rows, length, pads, is_short
):
    model, made = compiled(make)
    # Also where masks are made again.
    look_ahead.AHEAD = 3 if is_short else 64
    generator = torch.Generator().manual_seed(length)
    tokens = torch.randint(3, 99, (rows, length), generator=generator)
    mask = torch.ones_like(tokens)
    mask[0, : min(pads, length - 1)] = 0
    if {"num_beams", "num_return_sequences", "prompt_lookup_num_tokens"} & {*settings}:
        tokens, mask = tokens[:1], mask[:1]
    expected = answer(model, tokens, mask, settings)
    actual = answer(made, tokens, mask, settings)
    if isinstance(expected, type):
        assert actual is expected
        return
    guesses = "prompt_lookup_num_tokens" in settings and bool(mask.all())
    if guesses and "return_dict_in_generate" not in settings:
        # transformers asks criteria after a whole round, and draws otherwise.
        plain = {k: v for k, v in settings.items() if not k.startswith("prompt")}
        expected = answer(model, tokens, mask, plain)
    assert torch.equal(actual[0], expected[0])
    assert actual[2] == expected[2]
    for got, want in zip(actual[1], expected[1], strict=True):
        torch.testing.assert_close(got, want, rtol=1e-3, atol=1e-4)


def test_who_takes_the_short_loop():
    _, made = compiled(llama)
    steps, tokens = made.model.short_steps, prompt(2, 6)
    plain = {"max_new_tokens": 5, "eos_token_id": None, "pad_token_id": 0}

    def calls(rows, **more):
        before = steps.calls
        made.generate(tokens[:rows], **plain, **more)
        return steps.calls - before

    criteria = transformers.StoppingCriteriaList([third_of_a_token])
    for more in (
        {"do_sample": False},
        {"do_sample": True},
        {"repetition_penalty": 1.3},
        {"streamer": Seen()},
    ):
        assert calls(1, **more) == 4
    assert calls(2, do_sample=True) == calls(2, do_sample=False) == 4
    assert calls(1, stopping_criteria=criteria) > 0
    for more in (
        {"num_beams": 2},
        {"prompt_lookup_num_tokens": 2},
        {"return_dict_in_generate": True},
        {"use_cache": False},
    ):
        assert calls(1, **more) == 0
    hook = made.model.register_forward_hook(lambda *_: None)
    try:
        assert calls(1) == 0
    finally:
        hook.remove()


def test_a_class_with_steps_of_its_own_keeps_them():
    for kind in (transformers.Phi3ForCausalLM, transformers.BloomForCausalLM):
        made = decoding_loop.with_short_loop(kind)
        assert made.__name__ == kind.__name__
        assert made._sample is kind._sample


def test_the_largest_is_the_one_that_argmax_finds():
    scores = torch.randint(0, 3, (200, 77)).float()
    scores[:50, 7::9] = torch.nan
    scores[50:60] = -torch.inf
    assert torch.equal(scores.max(-1).indices, scores.argmax(-1))


class Notes(transformers.TemperatureLogitsWarper):
    """A processor of a user, which notes how many threads it has."""

    seen: ClassVar[list[int]] = []

    def __call__(self, input_ids, scores):
        self.seen.append(torch.get_num_threads())
        return scores


class Known(Notes):
    """The same as one of transformers."""

    __module__ = transformers.TemperatureLogitsWarper.__module__


def test_answers_end_where_all_criteria_together_end_them():
    """`Endings` looks at the newest tokens; transformers' list reads all of them."""
    chance = random.Random(0)
    ended = 0
    for _ in range(200):
        made = [
            lambda: MaxLengthCriteria(chance.randint(3, 9)),
            lambda: EosTokenCriteria(chance.sample(range(6), chance.randint(1, 3))),
            lambda: third_of_a_token,
        ]
        criteria = transformers.StoppingCriteriaList(
            chance.choice(made)() for _ in range(chance.randint(0, 3))
        )
        endings, length = Endings(criteria), chance.randint(2, 9)
        rows = torch.randint(6, (chance.randint(1, 4), length))
        wanted = [bool(end) for end in criteria(rows, None)]
        new = rows[:, -1].tolist()
        assert endings.after(new, length, rows.clone) == wanted
        ended += sum(wanted)
    assert ended > 100


def test_small_operators_between_steps_use_one_thread(monkeypatch):
    monkeypatch.setattr(Notes, "seen", [])
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        with pytest.raises(KeyError), one_thread(torch.zeros(9)):
            assert torch.get_num_threads() == 1
            raise KeyError
        with one_thread(torch.empty(LARGE + 1)):
            assert torch.get_num_threads() == 3
        config = types.SimpleNamespace(do_sample=False, _pad_token_tensor=None)
        for kind in (Notes, Known):
            processors = transformers.LogitsProcessorList([kind(2.0)])
            answer = decoding_loop.Answer(
                prompt(1, 4), processors, [], config, None, None
            )
            answer.grow(torch.zeros(1, 1, 9), None)
            assert torch.get_num_threads() == 3
        assert Notes.seen == [3, 1]
    finally:
        torch.set_num_threads(before)
