"""Tokens that a graph draws are those of transformers' processors and of
torch.multinomial, by the same seed."""

from __future__ import annotations

import types

import pytest
import torch
from decoders import llama, prompt
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from transformers import LogitsProcessorList
from transformers.generation import logits_process

from anabranch import llm
from anabranch.config import resolve
from anabranch.llm.programs import Programs
from anabranch.llm.sampling import draws, short_processors, token_draws, warpers
from anabranch.llm.sampling.sampling_step import UNKNOWN, Kind, SamplingStep, inputs_of

MADE = {
    "penalty": logits_process.RepetitionPenaltyLogitsProcessor,
    "temperature": logits_process.TemperatureLogitsWarper,
    "top_k": logits_process.TopKLogitsWarper,
    "top_p": logits_process.TopPLogitsWarper,
    "min_p": logits_process.MinPLogitsWarper,
}


def processors(**values) -> LogitsProcessorList:
    return LogitsProcessorList([MADE[name](value) for name, value in values.items()])


def in_eager() -> token_draws.SamplingGraphs:
    def call(_, method, *args):
        return method(*args)

    return token_draws.SamplingGraphs(types.SimpleNamespace(call=call))


def compiled() -> token_draws.SamplingGraphs:
    return token_draws.SamplingGraphs(Programs(resolve({}), None, lambda: None))


def check_equal(graphs, given, scores, seed=1) -> None:
    """The words of a call whose steps have these logits [steps, rows, words]."""
    tokens = torch.arange(3 * len(scores[0])).view(len(scores[0]), 3)
    expected, torch_generator = tokens, torch.Generator().manual_seed(seed)
    for logits in scores:
        chances = given(expected, logits.float()).softmax(-1)
        new = torch.multinomial(chances, 1, generator=torch_generator)
        expected = torch.cat([expected, new], 1)
    generator = torch.Generator().manual_seed(seed)
    drawn = token_draws.TokenDraws(graphs, given, tokens, generator)
    actual = tokens
    for logits in scores:
        new = drawn.next(logits, lambda: actual)  # noqa: B023 - called at once
        actual = torch.cat([actual, new.unsqueeze(1)], 1)
    assert torch.equal(actual, expected)
    assert torch.equal(generator.get_state(), torch_generator.get_state())


@pytest.mark.parametrize("words", [1, 2, 17, 50_000])
@pytest.mark.parametrize("rows", [1, 3])
def test_numbers_are_those_of_multinomial(rows, words):
    assert draws.are_known()
    ours, theirs = (torch.Generator().manual_seed(words) for _ in range(2))
    chances = torch.rand(rows, words, generator=theirs.clone_state())
    chances[:, ::3] = 0
    chances[:, -1] = 1
    numbers = torch.empty(rows, words, dtype=torch.float64)
    for _ in range(20):
        draws.uniform(numbers, ours)
        expected = torch.multinomial(chances, 1, generator=theirs).squeeze(1)
        assert torch.equal(draws.chosen(chances, numbers), expected)
    assert torch.equal(ours.get_state(), theirs.get_state())


@st.composite
def values(draw):
    return {
        name: draw(st.sampled_from(some))
        for name, some in {
            "penalty": [0.7, 1.3],
            "temperature": [0.3, 0.9, 1.7],
            "top_k": [1, 5, 64, 600, 10_000],
            "top_p": [0.0, 0.3, 0.9, 0.999],
            "min_p": [0.0, 0.02, 0.5, 1.0],
        }.items()
        if draw(st.booleans())
    }


# Of flat and of steep distributions, with ties as bf16 has them and without.
@settings(
    deadline=None,
    max_examples=150,
    suppress_health_check=[*HealthCheck],
    derandomize=True,
)
@given(
    values(),
    st.integers(1, 3),
    st.sampled_from([9, 64, 700, 3000]),
    st.sampled_from([0.1, 1.0, 4.0, 12.0]),
    st.sampled_from([torch.float32, torch.bfloat16, torch.float16]),
    st.integers(0, 99),
)
def test_words_are_those_of_transformers(given, rows, words, spread, dtype, seed):
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(6, rows, words, generator=generator) * spread
    check_equal(in_eager(), processors(**given), scores.to(dtype), seed)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("rows", [1, 2])
@pytest.mark.parametrize(
    "names",
    [[], ["top_k"], ["top_p"], ["temperature", "min_p"], [*MADE]],
    ids=lambda names: "-".join(names) or "plain",
)
def test_compiled_words_are_those_of_transformers(names, rows, dtype):
    some = {
        "penalty": (1.3, 0.8),
        "temperature": (0.7, 1.1),
        "top_k": (40, 9),
        "top_p": (0.9, 0.5),
        "min_p": (0.02, 0.3),
    }
    graphs = compiled()
    generator = torch.Generator().manual_seed(rows)
    for at in range(2):
        scores = torch.randn(12, rows, 5000, generator=generator) * 4
        given = processors(**{name: some[name][at] for name in names})
        check_equal(graphs, given, scores.to(dtype))
    # The values are inputs: other ones need no other program.
    assert len(graphs._programs) == 1


def test_a_word_that_was_seen_is_penalised_in_later_steps():
    scores = torch.zeros(9, 1, 12)
    scores[:, :, 5] = 8.0
    check_equal(in_eager(), processors(penalty=6.0), scores)


def test_tokens_without_a_logit_may_be_in_the_prompt():
    # The prompt of check_equal has tokens up to 8.
    check_equal(in_eager(), processors(penalty=2.0), torch.randn(4, 3, 5))


@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
@pytest.mark.parametrize("given", [{}, {"top_k": 5}, {"top_p": 0.9}])
def test_logits_that_are_no_numbers_have_multinomials_error(given, bad):
    scores = torch.randn(2, 900)
    scores[1, 7] = bad
    with pytest.raises(RuntimeError) as theirs:
        torch.multinomial(processors(**given)(prompt(2, 3), scores).softmax(-1), 1)
    drawn = token_draws.TokenDraws(in_eager(), processors(**given), prompt(2, 3))
    with pytest.raises(RuntimeError) as ours:
        drawn.next(scores, lambda: prompt(2, 3))
    assert str(ours.value) == str(theirs.value)


@pytest.mark.parametrize("given", [{}, {"top_k": 50}, {"top_p": 0.9}, {"min_p": 0.1}])
def test_the_graph_decides_almost_always(given):
    settings_, rows, words = warpers.Warpers(**given), 200, 5000
    scores = torch.randn(rows, words) * 4
    numbers = torch.rand(rows, words, dtype=torch.float64)
    found = SamplingStep(Kind.of(settings_, words)).compute(
        scores, numbers, numbers > 2, *inputs_of(settings_, words)
    )
    assert (found == UNKNOWN).sum() < 5


def test_equally_near_words_are_left_to_pytorch():
    scores, numbers = torch.zeros(1, 80), torch.full((1, 80), 0.5, dtype=torch.float64)
    for some in ({}, {"top_k": 7}, {"top_p": 0.9}):
        known = warpers.Warpers(**some)
        found = SamplingStep(Kind.of(known, 80)).compute(
            scores, numbers, numbers > 2, *inputs_of(known, 80)
        )
        assert found.tolist() == [UNKNOWN]


def test_which_processors_a_graph_computes():
    top_k, top_p = processors(top_k=3), processors(top_p=0.5)
    ours = [short_processors.TopP(0.5)]
    mine = [lambda tokens, scores: scores]
    fields_of_all = {
        "penalty": 2.0,
        "temperature": 3.0,
        "top_k": 4,
        "top_p": 0.5,
        "min_p": 0.25,
    }
    for of_call, before, fields in (
        ([], 0, {}),
        (processors(**fields_of_all), 0, fields_of_all),
        (ours, 0, {"top_p": 0.5}),
        ([*mine, *top_k, *ours], 1, {"top_k": 3, "top_p": 0.5}),
        ([*top_k, *mine], 2, {}),
        ([*top_p, *top_k], 1, {"top_k": 3}),
        ([*top_k, *top_k], 1, {"top_k": 3}),
        ([MADE["top_k"](3, filter_value=-1.0)], 1, {}),
        ([MADE["top_p"](0.3, min_tokens_to_keep=2)], 1, {}),
        ([MADE["penalty"](2.0, prompt_ignore_length=3)], 1, {}),
    ):
        first, rest = warpers.split(LogitsProcessorList(of_call))
        assert first == of_call[:before]
        assert rest == warpers.Warpers(**fields)


def test_processors_of_users_run_ahead_of_the_graph():
    def only_even(tokens, scores):
        assert tokens.shape[1] >= 3
        return scores.masked_fill(torch.arange(scores.shape[1]) % 2 == 1, -torch.inf)

    given = LogitsProcessorList([only_even, *processors(temperature=0.5, top_k=9)])
    check_equal(in_eager(), given, torch.randn(5, 2, 100))


def test_processors_of_users_run_once_for_a_token():
    calls = []

    def counting(tokens, scores):
        calls.append(tokens.shape[1])
        return scores

    # Equal scores: the graph leaves many tokens to PyTorch.
    given = LogitsProcessorList([counting, *processors(top_k=3)])
    drawn = token_draws.TokenDraws(in_eager(), given, prompt(1, 4))
    for _ in range(5):
        drawn.next(torch.zeros(1, 700), lambda: prompt(1, 4))
    assert len(calls) == 5


def test_a_pytorch_that_draws_in_another_way(monkeypatch):
    monkeypatch.setattr(draws, "are_known", lambda: False)
    monkeypatch.setattr(draws, "uniform", None)
    check_equal(in_eager(), processors(top_k=9), torch.randn(5, 2, 100))


def test_generate_draws_in_a_graph():
    torch.manual_seed(0)
    model = llama()
    made = llm.compile(model, max_batch=2, max_length=48)
    asked = {
        "max_new_tokens": 8,
        "do_sample": True,
        "temperature": 0.8,
        "top_k": 20,
        "top_p": 0.9,
        "min_p": 0.01,
        "repetition_penalty": 1.2,
        "pad_token_id": 0,
    }
    tokens, answers = prompt(2, 6), []
    for one in (model, made):
        torch.manual_seed(3)
        answers.append(one.generate(tokens, **asked))
    assert torch.equal(*answers)
    assert len(made._sampling._programs) == 1
    alone = []
    for row in tokens:
        torch.manual_seed(7)
        alone.append(model.generate(row.unsqueeze(0), **asked)[0].tolist())
    together = made.generate_batch([*tokens.tolist()], seed=7, **asked)
    assert [answer.tolist() for answer in together] == alone
