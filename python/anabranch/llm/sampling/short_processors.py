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
        counts = [self._count(*row) for row in zip(words, scores.logsumexp(-1))]
        known = [count for count in counts if count is not None]
        if len(known) < len(counts):
            return super().__call__(input_ids, scores)
        found = torch.full_like(scores, self.filter_value)
        for row, count in enumerate(known):
            found[row, numbers[row, :count]] = words[row, :count]
        return found

    def _count(self, words: torch.Tensor, all_words: torch.Tensor) -> int | None:
        """How many words stay possible, of the likeliest ones with these scores; None:
        not known. `all_words` is the logarithm of the sum of all words' exponentials.
        """
        chances = (words - all_words).exp()
        # Of each word with all words that are less likely.
        together = 1 - (chances.cumsum(0) - chances)
        distance = together - (1 - self.top_p)
        if not bool((distance.abs() > UNCERTAIN).all()):
            return None  # also for NaN
        count = max(int((distance > 0).sum()), self.min_tokens_to_keep)
        return count if count < len(words) else None
