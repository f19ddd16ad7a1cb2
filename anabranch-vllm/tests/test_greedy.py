"""Greedy tokens from logits of 16 bits, beside the sampler that stands in for vLLM's.
Needs no vLLM."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

import anabranch
from anabranch_vllm import greedy


class Processor:
    """A processor of logits. It has the states of both of vLLM's."""

    def __init__(self) -> None:
        self.biases: dict[int, dict[int, float]] = {}
        self.min_toks: dict[int, int] = {}


def processor(name: str, module: str = "vllm.v1.builtin", **states) -> Processor:
    made = type(name, (Processor,), {"__module__": module})()
    vars(made).update(states)
    return made


def batch(**changes) -> SimpleNamespace:
    """What vLLM's sampler reads of a batch of greedy requests that ask for tokens."""
    plain = {
        "all_greedy": True,
        "max_num_logprobs": None,
        "logprob_token_ids": None,
        "no_penalties": True,
        "allowed_token_ids_mask": None,
        "bad_words_token_ids": {},
        "thinking_budget_state_holder": None,
        "logitsprocs": processors(
            processor("MinTokensLogitsProcessor"), processor("LogitBiasLogitsProcessor")
        ),
    }
    return SimpleNamespace(**plain | changes)


def processors(*those: Processor) -> SimpleNamespace:
    return SimpleNamespace(non_argmax_invariant=list(those))


class Sampler:
    """Remembers the logits that it gets, and answers as vLLM's does for a plain batch."""

    def __init__(self) -> None:
        self.seen: list[torch.Tensor] = []

    def forward(
        self, logits, sampling_metadata, predict_bonus_token=False
    ) -> SimpleNamespace:
        self.seen.append(logits)
        tokens = logits.float().argmax(-1).to(torch.int32)
        return SimpleNamespace(
            sampled_token_ids=tokens.unsqueeze(-1), logprobs_tensors=None
        )


@pytest.fixture
def sampler() -> Sampler:
    made = Sampler()
    greedy.join(made, SimpleNamespace)
    return made


def tokens(sampler: Sampler, logits: torch.Tensor, **changes) -> torch.Tensor:
    with torch.inference_mode():
        output = sampler.forward(logits=logits, sampling_metadata=batch(**changes))
    assert output.logprobs_tensors is None
    return output.sampled_token_ids


def expected(logits: torch.Tensor) -> torch.Tensor:
    return logits.float().argmax(-1, keepdim=True).to(torch.int32)


def with_ties_and_nan(rows: int, columns: int, dtype: torch.dtype) -> torch.Tensor:
    """Logits of few values, so that many are the largest; one row has two NaN, one is of
    infinities."""
    logits = torch.randint(-3, 4, (rows, columns)).to(dtype)
    if rows > 2:
        logits[0, [columns // 3, columns // 2]] = float("nan")
        logits[1] = float("-inf")
    return logits


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_tokens_are_those_of_float32(sampler, dtype) -> None:
    for rows in (7, 1, 64):
        for logits in (
            torch.randn(rows, 1000).to(dtype),
            with_ties_and_nan(rows, 1000, dtype),
            torch.randn(rows, 1024).to(dtype)[:, :1000],  # without a padded vocabulary
        ):
            found = tokens(sampler, logits)
            assert found.dtype == torch.int32
            assert torch.equal(found, expected(logits))
    assert not sampler.seen
    # One for each of the two layouts.
    assert anabranch.counters.graphs == 2 and not anabranch.counters.eager_graphs


OTHERS = {
    "random": {"all_greedy": False},
    "logprobs": {"max_num_logprobs": 0},
    "logprobs of tokens": {"logprob_token_ids": {0: [3]}},
    "penalties": {"no_penalties": False},
    "a mask": {"allowed_token_ids_mask": torch.ones(1)},
    "bad words": {"bad_words_token_ids": {0: [[3]]}},
    "a budget": {
        "thinking_budget_state_holder": SimpleNamespace(
            has_tracked_requests=lambda: True
        )
    },
    "a bias": {
        "logitsprocs": processors(
            processor("LogitBiasLogitsProcessor", biases={0: {3: 1.0}})
        )
    },
    "a least length": {
        "logitsprocs": processors(
            processor("MinTokensLogitsProcessor", min_toks={0: 3})
        )
    },
    "a processor of another name": {"logitsprocs": processors(processor("Other"))},
    "the user's of the same name": {
        "logitsprocs": processors(processor("MinTokensLogitsProcessor", "users"))
    },
}


@pytest.mark.parametrize("changes", OTHERS.values(), ids=OTHERS)
def test_other_batches_are_vllms(sampler, changes) -> None:
    logits = torch.randn(3, 100).bfloat16()
    assert torch.equal(tokens(sampler, logits, **changes), expected(logits))
    assert sampler.seen == [logits]


def test_an_idle_budget_is_plain(sampler) -> None:
    idle = SimpleNamespace(has_tracked_requests=lambda: False)
    tokens(sampler, torch.randn(3, 100).bfloat16(), thinking_budget_state_holder=idle)
    assert not sampler.seen


def test_a_draft_is_checked_by_vllm(sampler) -> None:
    logits = torch.randn(3, 100).bfloat16()
    sampler.forward(logits, batch(), predict_bonus_token=True)
    assert sampler.seen == [logits]


def test_float32_is_vllms(sampler) -> None:
    logits = torch.randn(3, 100)
    tokens(sampler, logits)
    assert sampler.seen == [logits]
    assert not anabranch.counters.graphs


def test_the_warm_up_makes_the_program(sampler) -> None:
    """vLLM warms its sampler up with random requests."""
    logits = torch.randn(3, 100).bfloat16()
    tokens(sampler, logits, all_greedy=False)
    assert anabranch.counters.graphs == 1
    tokens(sampler, torch.randn(9, 100).bfloat16())
    assert anabranch.counters.graphs == 1 and len(sampler.seen) == 1


def test_a_model_that_is_loaded_anew_is_joined_once(sampler) -> None:
    greedy.join(sampler, SimpleNamespace)
    logits = torch.randn(3, 100).bfloat16()
    tokens(sampler, logits, max_num_logprobs=0)
    assert sampler.seen == [logits]
