"""Guesses of an EAGLE-3 head: one call of a program a round."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ..decoding.step_masks import plain
from ..kept_states import Kept
from ..programs import Programs
from .draft_loop import State, guess
from .eagle_head import Eagle3Head
from .placed_steps import call_with_length, filled, placed_at, read_length


class EagleLoop(nn.Module):
    """The programs of a head, one for each number of tokens that it reads at once."""

    def __init__(
        self, head: Eagle3Head, most: int, capacity: int, programs: Programs
    ) -> None:
        super().__init__()
        self.head, self.most, self.capacity = head, most, capacity
        self._programs = programs
        self._least = torch.zeros(1)

    def extra_repr(self) -> str:
        """Text for the key of a program in the compile cache."""
        return f"capacity={self.capacity}, most={self.most}"

    def guesses(
        self,
        tokens: list[int],
        features: Tensor,
        start: int,
        kept: tuple[Kept, Kept],
        count: int,
    ) -> list[int]:
        """Reads tokens beside the first of these features, those at the tokens before
        them, and makes `count` guesses. The first features are at position `start`."""
        end, size = start + len(tokens), features.shape[1]
        found, made = call_with_length(
            self._programs,
            size,
            self.compute,
            (
                filled(tokens, size),
                features,
                placed_at(0, len(tokens), size)[0],
                placed_at(start, end, size),
                torch.tensor([count]),
                self._least,
            ),
            read_length(end + count - 1, self.capacity),
            self.capacity,
            kept,
        )
        return found[: int(made)].tolist()

    def compute(
        self,
        tokens: Tensor,
        features: Tensor,
        rows: Tensor,
        positions: Tensor,
        count: Tensor,
        least: Tensor,
        columns: Tensor,
        kept: tuple[Kept, Kept],
    ) -> tuple[Tensor, Tensor]:
        """The guesses, and how many they are. `rows` repeats the last row that counts, as
        tokens and positions do."""
        head, length, last = self.head, columns.shape[0], positions[0, -1:]
        states = head(tokens, head.fc(features[:, rows]), positions, length, kept)

        def following(token: Tensor, made: Tensor, state: Tensor) -> State:
            at = (last + 1 + made).unsqueeze(0)
            state = head(token.unsqueeze(0), state, at, length, kept)
            return head.logits(state), state

        # A loop carries tensors of equal strides.
        state = plain(states[:, -1:])
        first = head.logits(state), state
        return guess(first, following, head.tokens_of, self.most, count, least)


class EagleDrafts:
    """A head's guesses for one answer."""

    def __init__(self, loop: EagleLoop) -> None:
        self._loop = loop
        shape = loop.head.shape
        self._kept = shape.empty(1, shape.heads, loop.capacity + 1)
        # Features that the head did not read, with their positions.
        self._unread: list[tuple[Tensor, int, int]] = []

    def saw(self, features: Tensor, begin: int, end: int) -> None:
        self._unread.append((features, begin, end))

    def propose(self, known: list[int], most: int) -> list[int]:
        count = min(most, self._loop.most)
        found: list[int] = []
        for number, (features, begin, end) in enumerate(self._unread, 1):
            wanted = count if number == len(self._unread) else 1
            tokens = known[begin + 1 : end + 1]
            found = self._loop.guesses(tokens, features, begin, self._kept, wanted)
        self._unread.clear()
        return found

    def size(self, tokens: int) -> int:
        return self._loop.most + 1

    def close(self) -> None:
        """The memory goes with this object."""
