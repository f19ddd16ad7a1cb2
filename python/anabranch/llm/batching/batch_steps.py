"""The compiled steps of a batch: its rows are at different positions and share one
pool.

Each pair (number of rows, number of tokens) has a program of its own. The length that a
step reads is a symbol of the program, so rows read no more than the longest of them
has."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn
from transformers.cache_utils import Cache

from ..kept_states import Kept
from ..programs import Programs
from .blocks import BLOCK, blocks_for
from .masks import Mask, Masks
from .paged_cache import PagedLayer, Pool, slot_of


class BatchSteps(nn.Module):
    """Runs a model over rows of a pool."""

    def __init__(
        self, model: Any, programs: Programs, max_rows: int, stored: torch.dtype | None
    ) -> None:
        """`stored`: the dtype of the numbers that the pool keeps; None: the model's."""
        super().__init__()
        self.model, self._stored = model, stored
        given = inspect.signature(model.forward).parameters
        if "position_ids" not in given:
            raise ValueError(
                f"{type(model).__name__} takes no position_ids, so its rows cannot be"
                " at different positions: use generate()"
            )
        self._keeps = "logits_to_keep" in given
        self._masks = Masks(model)
        self._programs = programs
        self._gears = [1 << n for n in range(max_rows.bit_length())]
        if self._gears[-1] < max_rows:
            self._gears.append(max_rows)

    def extra_repr(self) -> str:
        """Text for the key of a program in the compile cache."""
        return f"stored={self._stored}"

    def next_logits(
        self,
        pool: Pool,
        tokens: Sequence[Sequence[int]],
        starts: Sequence[int],
        tables: Sequence[Sequence[int]],
        size: int,
    ) -> tuple[torch.Tensor, list[int]]:
        """The logits after the last token of each row, [len(tokens), vocabulary], and
        the likeliest token of each.

        tokens  one token of each row, or up to `size` tokens of one row
        starts  how many earlier tokens of each row the pool already has
        tables  the places of each row's blocks, with room for all its tokens
        size    the number of tokens of a row that the program computes
        """
        assert size == 1 or len(tokens) == 1
        rows = next(gear for gear in self._gears if gear >= len(tokens))
        last = [first + len(row) for first, row in zip(starts, tokens)]
        # Dynamo takes a size of one for a constant, so rows read two blocks at least.
        count = max(blocks_for(max(last)), 2)
        ids = [[0] * size for _ in range(rows)]
        positions = [[0] * size for _ in range(rows)]
        # A step writes the tokens that fill it up to spare slots, each to its own.
        written = list(range(rows * size))
        read = [[0] * count for _ in range(rows)]
        for row, (given, first, end, own) in enumerate(
            zip(tokens, starts, last, tables)
        ):
            ids[row][: len(given)] = given
            # These positions repeat the last token, so the values that they see are
            # finite.
            positions[row] = [min(first + n, end - 1) for n in range(size)]
            begin = row * size
            written[begin : begin + len(given)] = [
                slot_of(own, token) for token in range(first, end)
            ]
            read[row][: len(own)] = own[:count]
        at = torch.tensor(positions)
        logits, likeliest = self._programs.call(
            (rows, size),
            self.compute,
            torch.tensor(ids),
            self._masks_of_blocks(at, count),
            at,
            torch.tensor([len(tokens[0]) - 1]),
            torch.tensor(written),
            torch.tensor(read),
            pool.layers,
            first=functools.partial(self._first, rows, size, pool),
        )
        return logits[: len(tokens), 0], likeliest[: len(tokens)].tolist()

    def _masks_of_blocks(self, positions: torch.Tensor, count: int) -> Mask:
        """The masks of a step: [rows, 1, tokens, count, BLOCK]."""
        masks = self._masks.make(positions, count * BLOCK)
        return _each(lambda mask: mask.unflatten(-1, (count, BLOCK)), masks)

    def _first(self, rows: int, size: int, pool: Pool) -> tuple[Any, ...]:
        """Arguments of a program's first call: their number of blocks is the same in
        all processes, and a symbol of the program."""
        count = 4
        positions = torch.zeros((rows, size), dtype=torch.long)
        masks = self._masks_of_blocks(positions, count)
        table = torch.zeros((rows, count), dtype=torch.long)
        torch._dynamo.mark_dynamic(table, 1)
        for mask in masks.values() if isinstance(masks, dict) else [masks]:
            torch._dynamo.mark_dynamic(mask, 3)
        ids, written = torch.zeros_like(positions), torch.arange(rows * size)
        end = torch.zeros(1, dtype=torch.long)
        return ids, masks, positions, end, written, table, pool.layers

    def compute(
        self,
        ids: torch.Tensor,
        mask: Mask,
        positions: torch.Tensor,
        end: torch.Tensor,
        written: torch.Tensor,
        table: torch.Tensor,
        kept: list[tuple[Kept, Kept]],
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The logits of the column `end` of the tokens, [rows, 1, vocabulary], and the
        likeliest words [rows]."""
        layers = [PagedLayer(*layer, written, table) for layer in kept]
        found = self.model(
            input_ids=ids,
            attention_mask=_each(lambda mask: mask.flatten(-2), mask),
            position_ids=positions,
            past_key_values=Cache(layers=layers),
            use_cache=True,
            **({"logits_to_keep": end} if self._keeps else {}),
            return_dict=True,
        ).logits
        logits = found if self._keeps else found[:, end]
        return logits, logits[:, -1].argmax(-1)


def _each(change: Callable[[torch.Tensor], torch.Tensor], masks: Mask) -> Mask:
    if isinstance(masks, dict):
        return {kind: change(mask) for kind, mask in masks.items()}
    return change(masks)
