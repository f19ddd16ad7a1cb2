"""Knows which token completes an answer.

The criteria for a length and for tokens that end an answer need the newest token alone.
transformers' classes would read a tensor of all tokens for them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from transformers.generation.stopping_criteria import (
    EosTokenCriteria,
    MaxLengthCriteria,
    StoppingCriteriaList,
)


class Endings:
    """The stopping criteria of one call.

    longest  how many tokens an answer has at most, its prompt included
    """

    def __init__(self, criteria: StoppingCriteriaList) -> None:
        self.longest = math.inf
        self._tokens: set[int] = set()
        self._others = StoppingCriteriaList()
        for one in criteria:
            if type(one) is MaxLengthCriteria:
                self.longest = min(self.longest, one.max_length)
            elif type(one) is EosTokenCriteria:
                self._tokens.update(one.eos_token_id.tolist())
            else:
                self._others.append(one)

    def after(
        self, new: Sequence[int], length: int, answers: Callable[[], torch.Tensor]
    ) -> list[bool]:
        """Whether each row is complete with its newest token.

        length   how many tokens each row has with it
        answers  makes the tokens of all rows, [rows, length]
        """
        ended = [length >= self.longest or token in self._tokens for token in new]
        if self._others:
            others = self._others(answers(), None).tolist()
            ended = [a or b for a, b in zip(ended, others)]
        return ended
