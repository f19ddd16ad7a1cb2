"""Guesses of a smaller model, the assistant: one call of a program a round."""

from __future__ import annotations

from typing import Any

import torch

from ..key_values import KeyValues
from ..programs import Programs
from .draft_loop import guess
from .placed_steps import (
    MOST_GUESSES,
    Pairs,
    PlacedModel,
    PlacedSteps,
    call_with_length,
    checked_size,
    filled,
    pairs_of,
    placed_at,
    read_length,
)

# The newest tokens that a round reads. After a round whose guesses were all right there
# are two: the assistant did not read its own last guess.
NEWEST = 2
# transformers' values for assistants whose configuration says nothing.
DEFAULT_COUNT, DEFAULT_LEAST = 20, 0.4


class AssistantLoop(PlacedSteps):
    """The programs of an assistant: one reads prompts, the other guesses."""

    def __init__(
        self, placed: PlacedModel, key_values: KeyValues, programs: Programs
    ) -> None:
        super().__init__(placed, key_values.capacity, programs)
        self.key_values, self.capacity = key_values, key_values.capacity

    def guesses(
        self,
        tokens: list[int],
        start: int,
        memory: Any,
        count: int,
        least: torch.Tensor,
    ) -> list[int]:
        """Reads tokens, at most NEWEST, and guesses up to `count` that follow."""
        end = start + len(tokens)
        memory.will_write(end + count - 1)
        found, made = call_with_length(
            self._programs,
            "guess",
            self.guess,
            (
                filled(tokens, NEWEST),
                placed_at(start, end, NEWEST),
                torch.tensor([count]),
                least,
            ),
            read_length(end + count - 1, self.capacity),
            self.capacity,
            pairs_of(memory),
        )
        return found[: int(made)].tolist()

    def guess(
        self,
        tokens: torch.Tensor,
        positions: torch.Tensor,
        count: torch.Tensor,
        least: torch.Tensor,
        columns: torch.Tensor,
        kept: Pairs,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        length, last = columns.shape[0], positions[0, -1:]
        rows = torch.arange(NEWEST - 1, NEWEST)
        logits, _ = self.placed(tokens, positions, rows, length, kept)

        def following(token: torch.Tensor, made: torch.Tensor) -> tuple[torch.Tensor]:
            at = (last + 1 + made).unsqueeze(0)
            logits, _ = self.placed(token.unsqueeze(0), at, None, length, kept)
            return (logits[:, -1],)

        return guess(
            (logits[:, -1],), following, lambda words: words, MOST_GUESSES, count, least
        )


class AssistantDrafts:
    """An assistant's guesses for one answer."""

    def __init__(self, loop: AssistantLoop, config: Any) -> None:
        """`config`: the generation configuration of the assistant."""
        self._loop, self._memory = loop, loop.key_values.take(1)
        wanted, least = (
            config.num_assistant_tokens,
            config.assistant_confidence_threshold,
        )
        self._most = min(DEFAULT_COUNT if wanted is None else int(wanted), MOST_GUESSES)
        self._least = torch.tensor([DEFAULT_LEAST if least is None else float(least)])
        # The tokens whose keys and values are in memory; those before `_same` are known.
        self._read: list[int] = []
        self._same = 0

    def propose(self, known: list[int], most: int) -> list[int]:
        begin = self._begin(known)
        count = min(most, self._most, self._loop.capacity - len(known) + 1)
        if count < 1:
            return []
        new = known[begin:-NEWEST]
        if new:
            self._loop.read(new, begin, self._memory)
            begin += len(new)
        found = self._loop.guesses(
            known[begin:], begin, self._memory, count, self._least
        )
        # The last guess was not read.
        self._read = [*known, *found[:-1]]
        self._same = len(known)
        return found

    def _begin(self, known: list[int]) -> int:
        """The position of the first token to read."""
        same = self._same
        for read, token in zip(self._read[same:], known[same:]):
            if read != token:
                break
            same += 1
        return min(same, len(known) - 1)

    def size(self, tokens: int) -> int:
        return checked_size(tokens)

    def saw(self, features: torch.Tensor, begin: int, end: int) -> None:
        """Reads no features."""

    def close(self) -> None:
        self._loop.key_values.give_back(self._memory)
