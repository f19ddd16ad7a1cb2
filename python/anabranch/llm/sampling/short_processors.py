"""Processors of logits that read the vocabulary few times. They compute what those of
transformers do, whose masks and sorts take longer than a small model's step."""

from __future__ import annotations

import math
from typing import Any

import torch
from transformers import LogitsProcessorList
from transformers.generation.logits_process import (
    MinLengthLogitsProcessor,
    MinNewTokensLengthLogitsProcessor,
    TopPLogitsWarper,
)

# So many of the likeliest words are sorted; the others count as one.
SORTED = 512
# Rounding may decide about a word that is this near to the limit.
UNCERTAIN = 1e-5


class ShortProcessors:
    """Overrides how transformers makes the processors of a call."""

    def _get_logits_processor(self, *args: Any, **kwargs: Any) -> LogitsProcessorList:
        made = super()._get_logits_processor(*args, **kwargs)  # type: ignore[misc]
        for at, one in enumerate(made):
            if type(one) is MinLengthLogitsProcessor:
                made[at] = MinLength(one.min_length, one.eos_token_id)
            elif type(one) is MinNewTokensLengthLogitsProcessor:
                length = one.prompt_length_to_skip + one.min_new_tokens
                made[at] = MinLength(length, one.eos_token_id)
            elif type(one) is TopPLogitsWarper:
                made[at] = TopP(one.top_p, one.filter_value, one.min_tokens_to_keep)
        return made


class MinLength(MinLengthLogitsProcessor):
    """Computes what its base class does, without a mask of the vocabulary. Forbids end
    tokens by their numbers."""

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        found = scores.clone()
        if input_ids.shape[-1] < self.min_length:
            ends = self.eos_token_id
            known = ends[(ends >= 0) & (ends < scores.shape[-1])]
            found.index_fill_(-1, known, -math.inf)
        return found


class TopP(TopPLogitsWarper):
    """Computes what its base class does, without sorting the vocabulary: only the
    likeliest words. Where these are too few, or rounding decides, it does sort. Of
    equally likely words at the limit, each keeps some: PyTorch's sort has no order of
    them."""

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        words, numbers = scores.topk(min(SORTED, scores.shape[-1]))
        largest = words[:, :1]
        total = (scores - largest).exp().sum(-1, keepdim=True)
        is_kept, is_clear = kept_by_top_p(
            (words - largest).exp(), total, 1 - self.top_p
        )
        is_kept[:, : self.min_tokens_to_keep] = True
        if not bool((is_clear & ~is_kept[:, -1:]).all()):
            return super().__call__(input_ids, scores)
        found = torch.full_like(scores, self.filter_value)
        return found.scatter_(-1, numbers, words.where(is_kept, self.filter_value))


def kept_by_top_p(
    chances: torch.Tensor, total: torch.Tensor, excluded: torch.Tensor | float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Which words top-p keeps, [rows, words]; whether no rounding decides about one of
    them and none is NaN, [rows, 1].

    chances   of the likeliest words, falling, [rows, words]
    total     the sum of all words' chances, [rows, 1]
    excluded  1 - top_p
    """
    share = chances / total
    # Of each word with all words that are less likely.
    together = 1 - (share.cumsum(-1) - share)
    distance = together - excluded
    return distance > 0, (distance.abs() > UNCERTAIN).all(-1, keepdim=True)
