"""Compiled steps of one row whose tokens come with their positions.

A step writes keys and values where its tokens lie and hides those that lie behind them.
So tokens that were refused need no removal: the next step overwrites them."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import nn

from ..batching.masks import Masks
from ..chunk_sizes import chunks
from ..kept_states import Kept
from ..key_values import CacheMemory, StateLayer
from ..programs import Programs
from ..steps import BLOCK
from .tapped_model import TappedCache, tapped

# The sizes of steps that check guesses. A step of one token checks none.
CHECKED = (1, 4, 8, 16)
MOST_GUESSES = CHECKED[-1] - 1

Pairs: TypeAlias = "list[tuple[Kept, Kept]]"


class Found(NamedTuple):
    """What a step computes."""

    logits: torch.Tensor  # [1, rows, words]
    likeliest: torch.Tensor  # int64 [1, rows]
    features: torch.Tensor | None  # [1, tokens, width], as a head reads them


class PlacedModel(nn.Module):
    """A model over kept keys and values. ValueError: its masks or positions cannot be
    made for tokens at any position."""

    def __init__(self, model: Any, features: Sequence[int] = ()) -> None:
        """features  numbers of the hidden states that a step gives, side by side; state
        0 is the embedding"""
        super().__init__()
        given = inspect.signature(model.forward).parameters
        if "position_ids" not in given:
            raise ValueError(f"{type(model).__name__} takes no position_ids")
        self.features = tuple(features)
        self.model = tapped(model, self.features) if features else model
        self._masks = Masks(model)
        self._keeps = "logits_to_keep" in given

    def forward(
        self,
        tokens: torch.Tensor,
        positions: torch.Tensor,
        rows: torch.Tensor | None,
        length: int,
        kept: Pairs,
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """The logits of these rows of tokens [1, tokens]; None: of all. The features of
        all tokens. A step reads the first `length` tokens of the row."""
        layers = [StateLayer(*pair, positions[0], length) for pair in kept]
        cache = TappedCache(layers)
        takes_rows = self._keeps and rows is not None
        logits = self.model(
            input_ids=tokens,
            attention_mask=self._masks.make(positions, length),
            position_ids=positions,
            past_key_values=cache,
            use_cache=True,
            return_dict=True,
            **({"logits_to_keep": rows} if takes_rows else {}),
        ).logits
        if rows is not None and not self._keeps:
            logits = logits[:, rows]
        if not self.features:
            return logits, None
        numbers = sorted({*self.features})
        states = [cache.states[numbers.index(at)] for at in self.features]
        return logits, torch.cat(states, -1)


class PlacedSteps(nn.Module):
    """Reads tokens of one row. Each size of a step has a program, whose length is a
    symbol."""

    def __init__(self, placed: PlacedModel, capacity: int, programs: Programs) -> None:
        super().__init__()
        self.placed, self._capacity, self._programs = placed, capacity, programs

    def extra_repr(self) -> str:
        """Text for the key of a program in the compile cache."""
        return f"capacity={self._capacity}, features={self.placed.features}"

    def run(
        self,
        tokens: Sequence[int],
        start: int,
        memory: CacheMemory,
        size: int,
        last_only: bool = False,
    ) -> Found:
        """Reads tokens that begin at position `start`, in a program of `size` tokens. The
        last one repeats until the step is full. Logits are those of all tokens of the
        step, or of the last one that was given."""
        end = start + len(tokens)
        memory.will_write(end)
        rows = torch.tensor([len(tokens) - 1]) if last_only else torch.arange(size)
        found = call_with_length(
            self._programs,
            (size, last_only),
            self.compute,
            (filled(tokens, size), placed_at(start, end, size), rows),
            read_length(end, self._capacity),
            self._capacity,
            pairs_of(memory),
        )
        return Found(*found, *([None] * (3 - len(found))))

    def read(
        self, tokens: Sequence[int], start: int, memory: CacheMemory
    ) -> list[tuple[int, int, Found]]:
        """Reads many tokens in chunks: begin and end of each, and what it found. Logits
        are those of the last token of a chunk."""
        return [
            (
                start + begin,
                start + end,
                self.run(
                    tokens[begin:end], start + begin, memory, size, last_only=True
                ),
            )
            for begin, end, size in chunks(len(tokens), None)
        ]

    def compute(
        self,
        tokens: torch.Tensor,
        positions: torch.Tensor,
        rows: torch.Tensor,
        columns: torch.Tensor,
        kept: Pairs,
    ) -> tuple[torch.Tensor, ...]:
        """The parts of `Found`. `columns` is as long as the step reads."""
        logits, features = self.placed(tokens, positions, rows, columns.shape[0], kept)
        found = logits, logits.argmax(-1)
        return found if features is None else (*found, features)


def call_with_length(
    programs: Programs,
    key: Any,
    method: Callable[..., Any],
    arguments: tuple[Any, ...],
    length: int,
    capacity: int,
    kept: Any,
) -> Any:
    """The method's result for (*arguments, columns, kept), where the number of columns is
    a symbol of the program."""

    def first() -> tuple[Any, ...]:
        # The same length in all processes. What this call writes, the next overwrites.
        made = torch.arange(read_length(1, capacity))
        if capacity > BLOCK:
            torch._dynamo.mark_dynamic(made, 0, min=2, max=capacity)
        return *arguments, made, kept

    return programs.call(key, method, *arguments, _columns(length), kept, first=first)


@functools.lru_cache(maxsize=64)
def _columns(length: int) -> torch.Tensor:
    return torch.arange(length)


def checked_size(tokens: int) -> int:
    """The size of the step that checks so many tokens."""
    return next(size for size in CHECKED if size >= tokens)


def read_length(tokens: int, capacity: int) -> int:
    """How many tokens of a row a step reads if it needs `tokens`."""
    return min(-(-tokens // BLOCK) * BLOCK, capacity)


def filled(tokens: Sequence[int], size: int) -> torch.Tensor:
    """Token ids [1, size]; the last one repeats."""
    return torch.tensor([[*tokens, *[tokens[-1]] * (size - len(tokens))]])


def placed_at(start: int, end: int, size: int) -> torch.Tensor:
    """Positions [1, size]; the last one repeats. A token that repeats writes what the
    last one writes."""
    return torch.arange(start, start + size).clamp_(max=end - 1).unsqueeze(0)


def pairs_of(memory: CacheMemory) -> Pairs:
    """What each layer keeps as keys, and as values."""
    return [layer.pair() for layer in memory.layers]
