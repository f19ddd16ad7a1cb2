"""Guesses from the tokens that are there: what followed the last ones before."""

from __future__ import annotations

from typing import Any

import torch
from transformers.generation.candidate_generator import PromptLookupCandidateGenerator

from .placed_steps import checked_size


class LookupDrafts:
    """Guesses what followed the newest tokens where they first occurred, as transformers
    finds it."""

    def __init__(self, config: Any) -> None:
        """`config`: the generation configuration of the call."""
        self._lookup = PromptLookupCandidateGenerator(
            num_output_tokens=config.prompt_lookup_num_tokens,
            max_matching_ngram_size=config.max_matching_ngram_size or 2,
            max_length=config.max_length,
        )

    def propose(self, known: list[int], most: int) -> list[int]:
        found, _ = self._lookup.get_candidates(torch.tensor([known]))
        return found[0, len(known) :][:most].tolist()

    def size(self, tokens: int) -> int:
        return checked_size(tokens)

    def saw(self, features: torch.Tensor, begin: int, end: int) -> None:
        """Reads no features."""

    def close(self) -> None:
        """Holds nothing."""
