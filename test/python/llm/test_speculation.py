"""Guesses of tokens change no text: tokens equal those of plain decoding."""

from __future__ import annotations

import math

import pytest
import torch
import transformers
from decoders import PLAIN, llama, prompt
from hypothesis import given
from hypothesis import strategies as st

import anabranch
from anabranch import llm
from anabranch.llm.speculation.placed_steps import CHECKED, Found
from anabranch.llm.speculation.speculative_loop import speculate

NEW = 20


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    return llama()


@pytest.fixture(scope="module")
def compiled(model):
    return llm.compile(model, max_length=64)


@pytest.fixture(scope="module")
def other():
    torch.manual_seed(1)
    return llama()


def repeating():
    torch.manual_seed(2)
    pattern = prompt(1, 6)
    return torch.cat([pattern, pattern, pattern[:, :3]], 1)


def counted(compiled, monkeypatch) -> list[int]:
    """The sizes of the checks that follow."""
    checks, steps = [], compiled._speculation._steps
    run = steps.run

    def noted(tokens, *arguments, **more):
        checks.append(len(tokens))
        return run(tokens, *arguments, **more)

    monkeypatch.setattr(steps, "run", noted)
    return checks


CHOICES = [
    {},
    {"repetition_penalty": 1.3},
    {"do_sample": True, "top_k": 5, "temperature": 0.5},
    {"do_sample": True, "logits_processor": "no even tokens"},
    {"eos_token_id": [*range(0, 90, 7)]},
    {"max_new_tokens": 1},
    {"max_new_tokens": 2},
    {"max_length": 64},
]


def no_even_tokens(input_ids, scores):
    scores[:, ::2] = -torch.inf
    return scores


def test_tokens_are_those_of_plain_decoding(model, compiled, other):
    """All choices in one test, whose programs are traced once."""
    tokens = repeating()
    processors = transformers.LogitsProcessorList([no_even_tokens])
    for choice in CHOICES:
        length = {} if "max_length" in choice else {"max_new_tokens": NEW}
        asked = PLAIN | length | choice
        if "logits_processor" in choice:
            asked["logits_processor"] = processors

        def answer(one, asked=asked, **more):
            torch.manual_seed(5)
            return one.generate(tokens, **asked, **more)

        expected = answer(model)
        anabranch.counters.reset()
        for more in (
            {"prompt_lookup_num_tokens": 3},
            {"assistant_model": other},
            {"assistant_model": model},
        ):
            assert torch.equal(answer(compiled, **more), expected), (choice, more)
        assert anabranch.counters.eager_graphs == 0


def test_right_guesses_save_steps(compiled, model, monkeypatch):
    checks = counted(compiled, monkeypatch)
    monkeypatch.setattr(model.generation_config, "num_assistant_tokens", 3)
    monkeypatch.setattr(model.generation_config, "assistant_confidence_threshold", 0.0)
    compiled.generate(repeating(), max_new_tokens=NEW, **PLAIN, assistant_model=model)
    # The prompt gives the first token, and each check four.
    assert sum(checks) == NEW - 1
    assert len(checks) == math.ceil((NEW - 1) / 4)


def test_an_assistant_stops_where_it_is_not_sure(compiled, model, monkeypatch):
    checks = counted(compiled, monkeypatch)
    monkeypatch.setattr(model.generation_config, "assistant_confidence_threshold", 1.1)
    compiled.generate(repeating(), max_new_tokens=NEW, **PLAIN, assistant_model=model)
    # The last check of an odd number of tokens has no guess.
    assert checks == [2] * ((NEW - 1) // 2) + [1] * ((NEW - 1) % 2)


def test_an_assistant_that_was_compiled(model, compiled, other):
    assistant = llm.compile(other, max_length=32, quantize="int8")
    tokens = repeating()
    expected = model.generate(tokens, max_new_tokens=40, **PLAIN)
    # The assistant's cache is full before the answer is complete.
    found = compiled.generate(
        tokens, max_new_tokens=40, **PLAIN, assistant_model=assistant
    )
    assert torch.equal(found, expected)


def test_rounds_of_an_assistant_are_one_call(compiled, other):
    tokens = repeating()
    for _ in range(2):
        compiled.generate(tokens, max_new_tokens=NEW, **PLAIN, assistant_model=other)
    loop = compiled._speculation._assistant[1].loop
    # One program reads prompts of this length, and one guesses.
    assert len(loop._programs) == 2


def test_kept_numbers_of_eight_bits(model, other):
    compiled = llm.compile(model, max_length=64, kv_cache_dtype="int8")
    tokens = repeating()
    expected = compiled.generate(tokens, max_new_tokens=NEW, **PLAIN)
    found = compiled.generate(
        tokens, max_new_tokens=NEW, **PLAIN, assistant_model=other
    )
    assert torch.equal(found, expected)


def test_other_calls_keep_the_loop_of_transformers(compiled, model, other):
    tokens = repeating()
    arguments = PLAIN | {"max_new_tokens": 8, "return_dict_in_generate": True}
    expected = model.generate(tokens, **arguments, assistant_model=other)
    found = compiled.generate(tokens, **arguments, assistant_model=other)
    assert torch.equal(found.sequences, expected.sequences)
    padded = torch.ones_like(tokens)
    padded[0, :3] = 0
    arguments = PLAIN | {"max_new_tokens": 8, "attention_mask": padded}
    expected = model.generate(tokens, **arguments)
    found = compiled.generate(tokens, **arguments, assistant_model=other)
    assert torch.equal(found, expected)


class Counting:
    """An answer whose next token is the sum of the last two, and guesses of it. Guess
    `at` of the whole answer is right if `right` says so."""

    def __init__(self, room: int, most: int, right: list[bool], ends: int) -> None:
        self.room, self.most, self.right, self.ends = room, most, right, ends
        self.known, self.checked, self.seen = [1, 2], 0, []

    @staticmethod
    def following(known: list[int]) -> int:
        return (known[-1] + known[-2]) % 97

    @property
    def last(self) -> torch.Tensor:
        return torch.tensor([[self.known[-1]]])

    def grow(self, logits: torch.Tensor, likeliest: torch.Tensor) -> bool:
        self.known.append(int(likeliest))
        self.room -= 1
        return self.room == 0 or self.known[-1] == self.ends

    def propose(self, known: list[int], most: int) -> list[int]:
        assert known == self.known and most < self.room
        found = []
        for at in range(min(most, self.most)):
            token = self.following([*known, *found])
            is_right = self.right[(len(known) + at) % len(self.right)]
            found.append(token if is_right else token + 1)
        return found

    def size(self, tokens: int) -> int:
        return tokens

    def saw(self, features: torch.Tensor, begin: int, end: int) -> None:
        self.seen.append((begin, end))

    capacity = 1000

    def run(self, tokens: list[int], start: int, size: int) -> Found:
        assert self.known[start:] == tokens[:1] and len(tokens) == size
        self.checked += 1
        before = self.known[:start]
        found = [self.following(before + tokens[: at + 1]) for at in range(len(tokens))]
        likeliest = torch.tensor([found])
        return Found(torch.zeros(1, size, 1), likeliest, torch.zeros(1, size, 1))


@given(
    st.integers(1, 40),
    st.integers(0, 5),
    st.lists(st.booleans(), min_size=1, max_size=9),
    st.integers(-1, 96),
)
def test_rounds_give_each_token_once(room, most, right, ends):
    plain, all_right = [1, 2], all(right)
    while len(plain) < room + 2 and (len(plain) == 2 or plain[-1] != ends):
        plain.append(Counting.following(plain))
    one = Counting(room, most, right, ends)
    speculate(one, one, one, list(one.known))
    assert one.known == plain
    # Features are seen of each token but the last, in order.
    begins, finishes = zip(*one.seen, strict=True)
    assert [*begins, len(plain) - 1] == [1, *finishes]
    if all_right and len(plain) == room + 2:
        assert one.checked == math.ceil(room / (most + 1))


def test_sizes_of_checks():
    from anabranch.llm.speculation.placed_steps import MOST_GUESSES, checked_size

    for tokens in range(1, MOST_GUESSES + 2):
        assert checked_size(tokens) in CHECKED
        assert checked_size(tokens) >= tokens
