"""Rounds of guesses and checks, until an answer is complete."""

from __future__ import annotations

from typing import Protocol

import torch

from ..key_values import CacheMemory
from .placed_steps import Found, PlacedSteps


class Answer(Protocol):
    """Chooses a token from each row of logits, as a loop without guesses does."""

    @property
    def room(self) -> float:
        """How many tokens it still takes."""

    @property
    def last(self) -> torch.Tensor:
        """The newest token, [1, 1]."""

    def grow(self, logits: torch.Tensor, likeliest: torch.Tensor | None) -> bool:
        """Adds the token that these logits [1, 1, words] give. True: it is complete."""


class Drafts(Protocol):
    """Guesses the tokens that follow, for one answer."""

    def propose(self, known: list[int], most: int) -> list[int]:
        """At most so many guesses of what follows `known`, which only grows."""

    def size(self, tokens: int) -> int:
        """The size of the program that checks so many tokens."""

    def saw(self, features: torch.Tensor, begin: int, end: int) -> None:
        """The features of the known tokens from position `begin` to `end`."""

    def close(self) -> None:
        """The answer is complete."""


class Checks:
    """The steps of the model that answers, over the memory of one call."""

    def __init__(self, steps: PlacedSteps, memory: CacheMemory, capacity: int) -> None:
        self.steps, self.memory, self.capacity = steps, memory, capacity

    def run(self, tokens: list[int], start: int, size: int) -> Found:
        return self.steps.run(tokens, start, self.memory, size)

    def read(self, prompt: list[int], drafts: Drafts) -> Found:
        """Reads a prompt, whose features `drafts` sees."""
        for begin, end, found in self.steps.read(prompt, 0, self.memory):
            if found.features is not None:
                drafts.saw(found.features, begin, end)
        return found


def speculate(answer: Answer, drafts: Drafts, checks: Checks, known: list[int]) -> None:
    """Completes an answer, whose first token is the last one of `known`. Keys and values
    of all tokens before it are in memory."""
    complete = False
    while not complete:
        past = len(known) - 1
        # A check gives one token more than there are guesses.
        most = int(min(answer.room, checks.capacity - past)) - 1
        guesses = drafts.propose(known, most) if most > 0 else []
        tokens = [known[-1], *guesses]
        found = checks.run(tokens, past, drafts.size(len(tokens)))
        for at in range(len(tokens)):
            complete = answer.grow(found.logits[:, at : at + 1], found.likeliest[:, at])
            known.append(int(answer.last))
            if complete or known[-1:] != guesses[at : at + 1]:
                break
        if found.features is not None:
            drafts.saw(found.features, past, len(known) - 1)
