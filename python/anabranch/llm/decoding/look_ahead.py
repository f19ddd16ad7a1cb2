"""Masks and positions of the tokens that follow, made for many tokens at once.

transformers makes the mask of each token from scratch. The mask of a token that comes
later is another row of the same mask."""

from __future__ import annotations

import functools
import operator
from typing import Any

import torch
from transformers import GenerationMixin
from transformers.masking_utils import create_masks_for_generate

from .step_masks import Masks, each, mapped, plain

# A class that overrides one of these prepares its steps in a way of its own.
HOOKS = (
    "_sample",
    "_assisted_decoding",
    "_prefill",
    "prepare_inputs_for_generation",
    "_update_model_kwargs_for_generation",
    "_prepare_position_ids_for_generation",
    "_has_unfinished_sequences",
)
# Masks are made for this many tokens at once.
AHEAD = 64


def has_usual_steps(kind: type) -> bool:
    """Whether a class of models takes the inputs and masks that transformers prepares
    for most of them."""
    plain = all(getattr(kind, n, None) is getattr(GenerationMixin, n) for n in HOOKS)
    return plain and not hasattr(kind, "create_masks_for_generate")


def made_masks(
    model: Any,
    cache: Any,
    size: tuple[int, int],
    seen: torch.Tensor | None = None,
    positions: torch.Tensor | None = None,
    are_whole: bool = False,
) -> Masks:
    """The masks that transformers makes for a step of `size` rows and tokens. It may
    make none where a causal mask is implied, unless they must be whole."""
    made: Masks = create_masks_for_generate(
        config=model.config,
        inputs_embeds=torch.empty((*size, 0), dtype=model.dtype),
        attention_mask=seen,
        past_key_values=cache,
        position_ids=positions,
        # A condition besides its own, which always holds.
        and_mask_function=_always if are_whole else None,
    )
    return made


def _always(batch: Any, head: Any, query: torch.Tensor, key: torch.Tensor) -> Any:
    return query >= 0


class LookAhead:
    """The inputs of the next `count` steps of one call of generate()."""

    def __init__(
        self,
        model: Any,
        cache: Any,
        rows: int,
        seen: torch.Tensor | None,
        positions: torch.Tensor | None,
    ) -> None:
        """`seen` is the mask [rows, tokens] of padding, and `positions` those of the last
        tokens [rows, 1], both with the first token to come; None: there are none."""
        self.begin = int(cache.get_seq_length())
        self.count = max(1, min(AHEAD, cache.capacity - self.begin))
        if seen is not None:
            more = seen.new_ones((seen.shape[0], self.count - 1))
            seen = torch.cat([seen, more], 1)
        if positions is not None:
            positions = positions + torch.arange(self.count)
        self._seen, self._positions = seen, positions
        made = functools.partial(self._made, model, cache, rows)
        first, self._masks = made(1), made(self.count)
        if not _begins_with(self._masks, first):
            # This model's mask is no row for each token.
            self._masks, self.count = first, 1
        self._length = 0
        self._rows: Masks = None
        self._columns = (
            None
            if positions is None
            else plain(positions.t().unsqueeze(-1))  # [count, rows, 1]
        )

    def _made(self, model: Any, cache: Any, rows: int, count: int) -> Masks:
        seen, positions = self._seen, self._positions
        return made_masks(
            model,
            cache,
            (rows, count),
            None if seen is None else seen[:, : self.begin + count],
            None if positions is None else positions[:, :count],
        )

    def covers(self, past: int) -> bool:
        return self.begin <= past < self.begin + self.count

    def masks(self, past: int, length: int) -> Masks:
        """The masks of the token at this place, each contiguous [rows, 1, 1, length]."""
        if length != self._length:
            self._rows = mapped(functools.partial(_cut, length=length), self._masks)
            self._length = length
        return mapped(operator.itemgetter(past - self.begin), self._rows)

    def positions(self, past: int) -> torch.Tensor | None:
        """The position of the token at this place, [rows, 1]."""
        return None if self._columns is None else self._columns[past - self.begin]


def _cut(mask: torch.Tensor, *, length: int) -> torch.Tensor:
    """A mask [rows, 1, count, capacity] as [count, rows, 1, 1, length]."""
    return plain(mask[..., :length].permute(2, 0, 1, 3).unsqueeze(3))


def _begins_with(masks: Masks, first: Masks) -> bool:
    """Whether `first` is the first row of `masks`."""
    names, others = ([*m] if isinstance(m, dict) else None for m in (masks, first))
    pairs = [*zip(each(masks), each(first))]
    return (
        names == others
        and len(pairs) == len(each(masks)) == len(each(first))
        and all(m.dim() == 4 and torch.equal(m[:, :, :1], f) for m, f in pairs)
    )
