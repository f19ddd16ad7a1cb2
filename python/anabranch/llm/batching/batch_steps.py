"""The compiled steps of a batch: its rows are at different positions and share one
pool.

Each pair (number of rows, number of tokens) has a program of its own. The length that a
step reads is a symbol of the program, so rows read no more than the longest of them
has."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn
from transformers.cache_utils import Cache

from ..programs import Programs
from .blocks import BLOCK, blocks_for
from .masks import Masks
from .paged_cache import PagedLayer, Pool


class BatchSteps(nn.Module):
    """Runs a model over rows of a pool."""

    def __init__(self, model: Any, programs: Programs, max_rows: int) -> None:
        super().__init__()
        self.model = model
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

    def logits(
        self,
        pool: Pool,
        tokens: Sequence[Sequence[int]],
        starts: Sequence[int],
        slots: Sequence[torch.Tensor],
        size: int,
    ) -> torch.Tensor:
        """The logits after the last token of each row: [len(tokens), vocabulary].

        tokens  one token of each row, or up to `size` tokens of one row
        starts  how many earlier tokens of each row the pool already has
        slots   of each row's blocks, with room for all its tokens
        size    the number of tokens of a row that the program computes
        """
        rows = next(gear for gear in self._gears if gear >= len(tokens))
        ids = torch.zeros((rows, size), dtype=torch.long)
        positions = torch.zeros((rows, size), dtype=torch.long)
        # A step writes the tokens that fill it up to spare slots, each to its own.
        written = torch.arange(rows * size).view(rows, size)
        last = [first + len(row) for first, row in zip(starts, tokens)]
        length = blocks_for(max(last)) * BLOCK
        read = torch.zeros((rows, length), dtype=torch.long)
        for row, (given, first, own) in enumerate(zip(tokens, starts, slots)):
            count = len(given)
            ids[row, :count] = torch.tensor(given)
            # These positions repeat the last token, so the values that they see are
            # finite.
            positions[row] = torch.arange(first, first + size).clamp_(
                max=first + count - 1
            )
            written[row, :count] = own[first : first + count]
            known = min(length, len(own))
            read[row, :known] = own[:known]
        assert size == 1 or len(tokens) == 1
        end = torch.tensor([len(tokens[0]) - 1])
        found = self._programs.call(
            (rows, size),
            self.compute,
            ids,
            self._masks.make(positions, length),
            positions,
            end,
            written.flatten(),
            read,
            pool.keys,
            pool.values,
            first=functools.partial(self._first, rows, size, pool),
        )
        return found[: len(tokens), 0]

    def _first(self, rows: int, size: int, pool: Pool) -> tuple[Any, ...]:
        """Arguments of a program's first call: their length is the same in all
        processes, and a symbol of the program."""
        length = 4 * BLOCK
        positions = torch.zeros((rows, size), dtype=torch.long)
        masks = self._masks.make(positions, length)
        read = torch.zeros((rows, length), dtype=torch.long)
        torch._dynamo.mark_dynamic(read, 1)
        for mask in masks.values() if isinstance(masks, dict) else [masks]:
            torch._dynamo.mark_dynamic(mask, 3)
        ids, written = torch.zeros_like(positions), torch.arange(rows * size)
        end = torch.zeros(1, dtype=torch.long)
        return ids, masks, positions, end, written, read, pool.keys, pool.values

    def compute(
        self,
        ids: torch.Tensor,
        mask: Any,
        positions: torch.Tensor,
        end: torch.Tensor,
        written: torch.Tensor,
        read: torch.Tensor,
        keys: list[torch.Tensor],
        values: list[torch.Tensor],
    ) -> torch.Tensor:
        """The logits of the column `end` of the tokens: [rows, 1, vocabulary]."""
        layers = [PagedLayer(k, v, written, read) for k, v in zip(keys, values)]
        found = self.model(
            input_ids=ids,
            attention_mask=mask,
            position_ids=positions,
            past_key_values=Cache(layers=layers),
            use_cache=True,
            **({"logits_to_keep": end} if self._keeps else {}),
            return_dict=True,
        ).logits
        return found if self._keeps else found[:, end]
