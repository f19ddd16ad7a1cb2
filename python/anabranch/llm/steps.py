"""The compiled steps of a language model: prefill by chunks of few sizes, and decode.

Each pair (number of rows, number of tokens) has a program of its own. It is compiled at
the first call that needs it, or read from the compile cache. How much of the cache of
keys and values a step reads is a symbol of its program, so a short sequence reads
little."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from transformers.cache_utils import Cache
from transformers.modeling_outputs import CausalLMOutputWithPast

from .chunk_sizes import chunks
from .decoding.look_ahead import has_usual_steps, made_masks
from .decoding.step_masks import Masks, each, mapped, plain
from .key_values import Beginning, KeyValueCache, KeyValues
from .programs import Programs

# Prompt lookup asks for the last logits of a call. Up to this many are computed alone.
FEW_LOGITS = 16
# A step reads the tokens of the cache up to a multiple of this number.
BLOCK = 128
# Arguments that a step may have besides tokens, mask, positions and cache.
PLAIN = {
    "use_cache": (True,),
    "return_dict": (True,),
    "output_attentions": (None, False),
    "output_hidden_states": (None, False),
}


class Steps(nn.Module):
    """Replaces `model.forward`."""

    def __init__(self, model: Any, key_values: KeyValues, programs: Programs) -> None:
        super().__init__()
        self.model = model
        self._key_values = key_values
        self._programs = programs
        self._given = list(inspect.signature(model.forward).parameters)
        self._keeps = "logits_to_keep" in self._given
        self._is_usual = has_usual_steps(type(model))

    def extra_repr(self) -> str:
        """Text for the key of a program in the compile cache."""
        return f"capacity={self._key_values.capacity}, stored={self._key_values.stored}"

    def serve(self, *args: Any, **kwargs: Any) -> Any:
        """`model.forward`. Calls that are no step over a static cache go to the model
        itself, which PyTorch runs."""
        call = dict(zip(self._given, args)) | kwargs
        tokens, cache = call.pop("input_ids", None), call.pop("past_key_values", None)
        mask, positions = (
            call.pop("attention_mask", None),
            call.pop("position_ids", None),
        )
        keep = call.pop("logits_to_keep", 0)
        if (
            tokens is None
            or not isinstance(keep, int)
            or not self._key_values.fits(cache)
            or not _is_plain(call)
            or not all(self._reads(m) for m in each(mask))
        ):
            if isinstance(cache, KeyValueCache):
                cache.memory.will_write(cache.capacity + 1)
            return self.model(*args, **kwargs)
        logits = self._run(tokens, mask, positions, keep, cache)
        return CausalLMOutputWithPast(logits=logits, past_key_values=cache)

    def _reads(self, mask: torch.Tensor) -> bool:
        """Whether steps have such masks: of tokens by tokens, or as BLOOM has it of all
        tokens that the cache holds."""
        return mask.dim() == 4 or mask.shape[1:] == (self._key_values.capacity,)

    def next_logits(
        self, tokens: torch.Tensor, masks: Masks, positions: Any, cache: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The logits [rows, 1, words] after tokens [rows, 1], and the likeliest word
        of each row [rows]. The masks are contiguous and as wide as `length` says."""
        past = int(cache.get_seq_length())
        self._check_room(past, 1)
        cache.memory.will_write(past + 1)
        return self._step(tokens, masks, positions, _rows(1, 1), cache)

    def _check_room(self, past: int, count: int) -> None:
        capacity = self._key_values.capacity
        if past + count > capacity:
            raise ValueError(
                f"the sequence has {past + count} tokens and the cache holds"
                f" {capacity}: compile the model with a larger max_length"
            )

    def _run(
        self, tokens: torch.Tensor, mask: Masks, positions: Any, keep: int, cache: Any
    ) -> torch.Tensor:
        past, count = int(cache.get_seq_length()), tokens.shape[1]
        self._check_room(past, count)
        found = []
        for begin, end, size in chunks(count, self._key_values.capacity - past):
            read = end - begin
            asked = size if not 0 < keep <= FEW_LOGITS else min(size, FEW_LOGITS)
            asked = 1 if keep == 1 else asked
            length = self.length(past + begin + size)
            cache.memory.will_write(past + begin + size)
            take = functools.partial(_take, begin=begin, end=end, size=size)
            shorten = functools.partial(_shorten, take=take, length=length)
            if mask is None:
                masks = self._made_masks(tokens.shape[0], size, length, cache)
            else:
                masks = mapped(shorten, mask)
            logits, _ = self._step(
                plain(take(tokens, dim=1)),
                masks,
                None
                if positions is None
                else plain(take(positions, dim=positions.dim() - 1)),
                _rows(read, asked),
                cache,
            )
            found.append(logits[:, max(asked - read, 0) :])
            if begin + size > end:
                cache.crop(begin + size - end)
        return (found[0] if len(found) == 1 else torch.cat(found, 1))[:, -keep:]

    def _made_masks(self, rows: int, size: int, length: int, cache: Any) -> Masks:
        """The masks of the next `size` tokens, where a call brings none: nothing is
        hidden but what comes later. A model without masks would read the whole cache,
        since its own masks are of all tokens that the cache holds. None: this model's
        masks are of another kind."""
        if not self._is_usual:
            return None
        short = Cache([Beginning(layer, length) for layer in cache.layers])
        made = made_masks(self.model, short, (rows, size), are_whole=True)
        is_known = all(mask.dim() == 4 for mask in each(made))
        return mapped(plain, made) if is_known else None

    def _step(
        self, tokens: Any, mask: Masks, positions: Any, rows: Any, cache: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        masks = mask if isinstance(mask, dict) else {"": mask}
        first = functools.partial(self._first, tokens, mask, positions, rows)
        key = (
            tuple(tokens.shape),
            None if positions is None else positions.dim(),
            tuple((name, m is not None and m.dim()) for name, m in masks.items()),
            len(rows),
        )
        return self._programs.call(
            key, self.compute, tokens, mask, positions, rows, cache, first=first
        )

    def _first(
        self, tokens: Any, mask: Masks, positions: Any, rows: Any
    ) -> tuple[Any, ...]:
        """Arguments of a program's first call: their length is the same in all
        processes, and a symbol of the program."""
        capacity = self._key_values.capacity

        def shorten(given: torch.Tensor) -> torch.Tensor:
            shape = (*given.shape[:-1], self.length(1))
            made = torch.zeros(shape, dtype=given.dtype)
            if capacity > BLOCK:
                torch._dynamo.mark_dynamic(made, made.dim() - 1, min=2, max=capacity)
            return made

        made = self._key_values.make(tokens.shape[0])
        return tokens, mapped(shorten, mask), positions, rows, made

    def length(self, tokens: int) -> int:
        """How many tokens of the cache a step reads if it needs `tokens`."""
        return min(-(-tokens // BLOCK) * BLOCK, self._key_values.capacity)

    def compute(
        self, tokens: Any, mask: Any, positions: Any, rows: Any, cache: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The logits of these rows of tokens, and the likeliest word after the last
        one. Writes their keys and values to `cache`. Some models always compute all
        logits."""
        masks = each(mask)
        length = masks[0].shape[-1] if masks else self._key_values.capacity
        cache = Cache([Beginning(layer, length) for layer in cache.layers])
        found = self.model(
            input_ids=tokens,
            attention_mask=mask,
            **({} if positions is None else {"position_ids": positions}),
            past_key_values=cache,
            use_cache=True,
            **({"logits_to_keep": rows} if self._keeps else {}),
            return_dict=True,
        ).logits
        logits = found if self._keeps else found[:, rows]
        return logits, logits[:, -1].argmax(-1)


@functools.lru_cache(maxsize=64)
def _rows(read: int, asked: int) -> torch.Tensor:
    """The last tokens. If the chunk has fewer than asked for, its first one repeats."""
    return torch.arange(read - asked, read).clamp_(min=0)


def _take(
    tensor: torch.Tensor, *, begin: int, end: int, size: int, dim: int
) -> torch.Tensor:
    """A chunk; its last element is repeated up to `size`.

    A repeated token sees what the last one sees, so its values are finite, and no
    earlier token sees it.
    """
    if begin == 0 and end == size == tensor.shape[dim]:
        return tensor
    index = torch.arange(begin, begin + size).clamp_(max=end - 1)
    return tensor.index_select(dim, index)


def _shorten(
    mask: torch.Tensor, *, take: Callable[..., torch.Tensor], length: int
) -> torch.Tensor:
    """The rows of a chunk of a mask, and the tokens that it reads."""
    part = take(mask, dim=2) if mask.dim() == 4 else mask
    return plain(part[..., :length])


def _is_plain(call: dict[str, Any]) -> bool:
    return all(
        value is None or (key in PLAIN and any(value is p for p in PLAIN[key]))
        for key, value in call.items()
    )
