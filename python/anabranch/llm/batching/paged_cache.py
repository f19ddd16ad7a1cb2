"""Keeps the keys and values of many requests in one pool of blocks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ..key_values import LayerShape, PlacedLayer
from .blocks import BLOCK


class Pool:
    """One tensor of keys and one of values for each layer: [heads, slots, size].

    A slot holds one token. The first `spare` slots belong to no request; a step writes
    the tokens that fill it up there.
    """

    def __init__(self, layers: Sequence[LayerShape], blocks: int, spare: int) -> None:
        slots = spare + blocks * BLOCK
        self.spare, self.blocks = spare, blocks
        # Hidden values are multiplied by 0, so they must be finite: the pool begins as
        # zeros.
        self.keys = [
            torch.zeros((shape.heads, slots, shape.key_size), dtype=shape.dtype)
            for shape in layers
        ]
        self.values = [
            torch.zeros((shape.heads, slots, shape.value_size), dtype=shape.dtype)
            for shape in layers
        ]

    def slots(self, blocks: Sequence[int]) -> torch.Tensor:
        """The slots of these blocks in order: int64 [len(blocks) * BLOCK]."""
        first = torch.tensor(blocks, dtype=torch.long) * BLOCK + self.spare
        return (first.unsqueeze(1) + torch.arange(BLOCK)).flatten()


class PagedLayer(PlacedLayer):
    """One layer of the pool, as a model's attention sees it during one step.

    keys, values  the pool's [heads, slots, size], updated in place
    written       int64 [rows * tokens]: the slots of the step's tokens, all different
    read          int64 [rows, length]: the slots of each row's tokens, in order"""

    def __init__(
        self,
        keys: torch.Tensor,
        values: torch.Tensor,
        written: torch.Tensor,
        read: torch.Tensor,
    ) -> None:
        super().__init__(keys, values, read.shape[1])
        self.written, self.read = written, read

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *_: Any, **__: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Writes [rows, heads, tokens, size] to the pool. Returns the keys and the
        values of each row: [rows, heads, length, size]."""
        found = []
        for pool, states in ((self.keys, key_states), (self.values, value_states)):
            assert pool is not None
            pool.index_copy_(1, self.written, states.transpose(0, 1).flatten(1, 2))
            found.append(pool[:, self.read].transpose(0, 1))
        return found[0], found[1]
