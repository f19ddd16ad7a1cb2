"""The module of a package whose one call generates a whole answer."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch._higher_order_ops import while_loop

# What fills the places of tokens that were not made.
NO_TOKEN = -1


class Answer(nn.Module):
    """Reads a part of a prompt, and then takes the most likely token again and again.

        logits = step(tokens, start, last)      as a package without answers
        while made < count and the last token was not `end` and the state has room:
            token = the largest of logits; logits = step(token)

    The loop is a region of the program: it returns to its caller once."""

    def __init__(self, step: Callable[..., Tensor], most: int, capacity: int) -> None:
        super().__init__()
        self.step, self._most, self._capacity = step, most, capacity

    def forward(
        self, tokens: Tensor, start: Tensor, last: Tensor, count: Tensor, end: Tensor
    ) -> tuple[Tensor, Tensor]:
        places = torch.arange(self._most)
        first = self.step(tokens, start, last).argmax(-1)
        read = start + last + 1
        wanted = count.clamp(max=self._most)
        wanted = torch.minimum(wanted, self._capacity - read + 1)
        found = torch.where((places == 0) & (wanted > 0), first, NO_TOKEN)

        def goes_on(made: Tensor, token: Tensor, found: Tensor) -> Tensor:
            return ((made < wanted) & (token != end)).squeeze(0)

        def write(
            made: Tensor, token: Tensor, found: Tensor
        ) -> tuple[Tensor, Tensor, Tensor]:
            logits = self.step(token.unsqueeze(0), read + made - 1, made * 0)
            token = logits.argmax(-1)
            return made + 1, token, torch.where(places == made, token, found)

        begin = wanted.clamp(0, 1), first, found
        made, _, found = while_loop(goes_on, write, begin)
        return found, made
