"""Makes attention masks for rows that are at different positions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import torch

Sees: TypeAlias = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
Mask: TypeAlias = "torch.Tensor | dict[str, torch.Tensor]"


class Masks:
    """Makes the masks that one model takes, in the form that transformers'
    `create_masks_for_generate` gives them for rows of equal positions."""

    def __init__(self, model: Any) -> None:
        """ValueError: the model has layers that need other masks."""
        config = model.config.get_text_config(decoder=True)
        if getattr(config, "alibi", False) or type(model).__name__.startswith("Bloom"):
            raise ValueError(
                f"{type(model).__name__} adds biases of distances to its scores, and"
                " batches have no such masks: use generate()"
            )
        kinds = getattr(config, "layer_types", None)
        self._kinds: dict[str, Sees] | None = None
        if kinds is not None:
            self._kinds = {kind: _sees(kind, config) for kind in set(kinds)}
        elif getattr(config, "sliding_window", None) is not None:
            self._all = _sees("sliding_attention", config)
        elif getattr(config, "attention_chunk_size", None) is not None:
            self._all = _sees("chunked_attention", config)
        else:
            self._all = _sees("full_attention", config)
        # Eager attention adds its mask to the scores; other implementations select by
        # it.
        adds = config._attn_implementation == "eager"
        self._hidden = torch.finfo(model.dtype).min if adds else None
        self._dtype = model.dtype

    def make(self, positions: torch.Tensor, length: int) -> Mask:
        """The masks of a step: [rows, 1, tokens, length].

        positions  int64 [rows, tokens]: the positions of the step's tokens
        length     how many tokens of each row the step reads
        """
        at = positions[:, None, :, None]
        keys = torch.arange(length)
        if self._kinds is None:
            return self._as_asked(self._all(at, keys))
        return {
            name: self._as_asked(sees(at, keys)) for name, sees in self._kinds.items()
        }

    def _as_asked(self, seen: torch.Tensor) -> torch.Tensor:
        if self._hidden is None:
            return seen
        zero = torch.zeros((), dtype=self._dtype)
        return torch.where(seen, zero, self._hidden)


def _sees(kind: str, config: Any) -> Sees:
    if kind == "full_attention":
        return lambda at, key: key <= at
    if kind == "sliding_attention":
        window = config.sliding_window
        return lambda at, key: (key <= at) & (key > at - window)
    if kind == "chunked_attention":
        size = config.attention_chunk_size
        return lambda at, key: (key <= at) & (key // size == at // size)
    raise ValueError(
        f"layers of the kind {kind!r} do not keep keys and values of all tokens, and"
        " batches are made of those: use generate()"
    )
