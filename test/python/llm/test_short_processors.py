"""Processors of logits compute what those of transformers do."""

from __future__ import annotations

import pytest
import torch
from transformers.generation import logits_process

from anabranch.llm.sampling import short_processors


def check_equal(actual, expected, scores: torch.Tensor) -> None:
    """Equal scores in all places, or at least as many of each."""
    tokens = torch.zeros(len(scores), 4, dtype=torch.long)
    before = scores.clone()
    found, wanted = actual(tokens, scores), expected(tokens, scores)
    exact = {"rtol": 0, "atol": 0, "equal_nan": True}
    torch.testing.assert_close(scores, before, **exact)
    if len(scores.unique()) == scores.numel():
        torch.testing.assert_close(found, wanted, **exact)
    torch.testing.assert_close(found.sort(-1).values, wanted.sort(-1).values, **exact)
    kept = found != getattr(actual, "filter_value", -torch.inf)
    torch.testing.assert_close(found[kept], scores[kept], **exact)


@pytest.mark.parametrize("ends", [[2], [0, 8], [8, 9, 1000, -1]])
@pytest.mark.parametrize("length", [3, 4, 5])
def test_min_length(ends, length):
    scores = torch.randn(2, 9)
    scores[0, 3] = torch.nan
    known = torch.tensor(ends)
    check_equal(
        short_processors.MinLength(length, known),
        logits_process.MinLengthLogitsProcessor(length, known),
        scores,
    )


# Of flat and of steep distributions, with ties as bf16 has them and without.
@pytest.mark.parametrize("spread", [0.1, 1.0, 4.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("words", [7, 512, 3000, 50000])
def test_top_p(spread, dtype, words):
    generator = torch.Generator().manual_seed(words)
    for chance in (0.0, 0.02, 0.3, 0.8, 0.9, 0.95, 0.999, 1.0):
        for least in (1, 3):
            scores = torch.randn(2, words, generator=generator) * spread
            check_equal(
                short_processors.TopP(chance, min_tokens_to_keep=least),
                logits_process.TopPLogitsWarper(chance, min_tokens_to_keep=least),
                scores.to(dtype).float(),
            )


@pytest.mark.parametrize("chance", [0.1, 0.9, 0.99])
def test_top_p_after_top_k(chance):
    generator = torch.Generator().manual_seed(1)
    for count in (1, 5, 50, 700):
        scores = torch.randn(3, 2000, generator=generator).bfloat16().float()
        scores = logits_process.TopKLogitsWarper(count)(None, scores)
        check_equal(
            short_processors.TopP(chance, filter_value=-1e9),
            logits_process.TopPLogitsWarper(chance, filter_value=-1e9),
            scores,
        )


def test_top_p_of_scores_that_are_no_numbers():
    scores = torch.randn(4, 600)
    scores[0, 5], scores[1, 7], scores[2] = torch.nan, torch.inf, -torch.inf
    check_equal(
        short_processors.TopP(0.9), logits_process.TopPLogitsWarper(0.9), scores
    )


def test_top_p_does_not_sort_where_few_words_are_likely(monkeypatch):
    monkeypatch.setattr(torch, "sort", None)
    scores = torch.randn(2, 50000) * 4
    kept = short_processors.TopP(0.9)(torch.zeros(2, 1), scores).isfinite()
    assert 0 < kept.sum() < 2 * short_processors.SORTED
