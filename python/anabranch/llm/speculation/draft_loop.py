"""The program that guesses tokens: it reads the newest ones, and then its own guesses.

    guess from the first logits
    while made < count and the last guess was likely enough:
        guess from the logits after the last guess

The loop is a region of the program, so a round of guesses is one call."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import torch
from torch import Tensor
from torch._higher_order_ops import while_loop

# The logits [1, words] of the next guess, and what the guess after it reads besides.
State: TypeAlias = "tuple[Tensor, ...]"


def guess(
    first: State,
    following: Callable[..., State],
    token_of: Callable[[Tensor], Tensor],
    most: int,
    count: Tensor,
    least: Tensor,
) -> tuple[Tensor, Tensor]:
    """The guesses int64 [most], and how many they are [1].

    first      of the first guess
    following  the state after a guess: of its token [1], its place among the guesses
               [1], and what the state before had besides logits
    token_of   the token ids of words [1]
    most       guesses that the program can make
    count      int64 [1]: guesses that are wanted, at least one
    least      float32 [1]: a guess that is less likely than this is the last one
    """
    places = torch.arange(most)
    logits, *carried = first
    word, chance = _likeliest(logits)
    token = token_of(word)
    found = torch.where(places == 0, token, 0)

    def goes_on(made: Tensor, chance: Tensor, *_: Tensor) -> Tensor:
        return ((made < count) & (chance >= least)).squeeze(0)

    def write(
        made: Tensor, chance: Tensor, token: Tensor, found: Tensor, *carried: Tensor
    ) -> State:
        logits, *more = following(token, made - 1, *carried)
        word, chance = _likeliest(logits)
        token = token_of(word)
        found = torch.where(places == made, token, found)
        return made + 1, chance, token, found, *more

    begin = (torch.ones_like(count), chance, token, found, *carried)
    made, _, _, found, *_ = while_loop(goes_on, write, begin)
    return found, made


def _likeliest(logits: Tensor) -> tuple[Tensor, Tensor]:
    """The likeliest word [1] of logits [1, words], and its probability, float32."""
    logits = logits.float()
    largest = logits.amax(-1, keepdim=True)
    return logits.argmax(-1), 1 / (logits - largest).exp().sum(-1)
