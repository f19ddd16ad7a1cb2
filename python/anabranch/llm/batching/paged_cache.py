"""Keeps the keys and values of many requests in one pool of blocks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from .. import kept_states
from ..kept_states import Kept
from ..key_values import LayerShape, PlacedLayer
from .blocks import BLOCK, blocks_for


class Pool:
    """The keys and the values of each layer: [heads, slots, size].

    A slot holds one token, a block BLOCK of them. The first blocks belong to no request:
    a step writes the tokens that fill it up there.
    """

    def __init__(self, layers: Sequence[LayerShape], blocks: int, spare: int) -> None:
        """`blocks` are the requests' own; `spare` is how many more slots there are."""
        self.blocks, self._spare = blocks, blocks_for(spare)
        slots = (self._spare + blocks) * BLOCK
        # Hidden values are multiplied by 0, so they must be finite: the pool begins as
        # zeros.
        self.layers = [shape.empty(shape.heads, slots) for shape in layers]

    def places(self, blocks: Sequence[int]) -> list[int]:
        """Where these blocks of requests are among all blocks of the pool."""
        return [self._spare + block for block in blocks]


def slot_of(table: Sequence[int], token: int) -> int:
    """The slot of a request's token, by the places of the request's blocks."""
    return table[token // BLOCK] * BLOCK + token % BLOCK


class PagedLayer(PlacedLayer):
    """One layer of the pool, as a model's attention sees it during one step.

    keys, values  the pool's [heads, slots, size], updated in place
    written       int64 [rows * tokens]: the slots of the step's tokens, all different
    table         int64 [rows, blocks]: the places of each row's blocks, in order"""

    def __init__(
        self,
        keys: Kept,
        values: Kept,
        written: torch.Tensor,
        table: torch.Tensor,
    ) -> None:
        super().__init__(table.shape[1] * BLOCK)
        self.pools, self.written, self.table = (keys, values), written, table

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *_: Any, **__: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Writes [rows, heads, tokens, size] to the pool. Returns the keys and the
        values of each row: [rows, heads, length, size]. Attention reads them in place,
        so no step copies them."""
        keys, values = map(self._update, self.pools, (key_states, value_states))
        return keys, values

    def _update(self, pool: Kept, states: torch.Tensor) -> torch.Tensor:
        tokens = states.transpose(0, 1).flatten(1, 2)
        kept_states.write(pool, 1, self.written, tokens)
        return kept_states.read(pool, states.dtype, self._of_rows)

    def _of_rows(self, pool: torch.Tensor) -> torch.Tensor:
        blocks = pool.unflatten(1, (-1, BLOCK))[:, self.table]
        return blocks.flatten(2, 3).transpose(0, 1)
