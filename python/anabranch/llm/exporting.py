"""anabranch.llm.export: writes a language model as one package that keeps its state."""

from __future__ import annotations

import inspect
import os
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn
from torch.export import Dim
from transformers.cache_utils import Cache

from .. import Config, set_gears
from .. import export as export_module
from ..extension import configure
from .batching.masks import Masks
from .exported_answer import Answer
from .kept_states import Kept, stored_dtype
from .key_values import KeyValues, LayerShape, StateLayer
from .language_model import checked_calibration, checked_length, checked_model
from .rounded_models import quantized_once

# Tokens of a call: one to decode, more to read a prompt.
SIZES = (1, 16, 64, 256)
# Suffixes of buffer names: of states or their bytes, and of scales.
BUFFERS = ("", "_scales")


def export(
    model: Any,
    path: str | os.PathLike[str],
    *,
    quantize: str | None = None,
    calibration: Any = None,
    max_length: int | None = None,
    kv_cache_dtype: str | None = None,
    sizes: Sequence[int] = SIZES,
    answer: int | None = None,
    targets: Sequence[str] | None = None,
    config: Config | None = None,
    overwrite: bool = False,
) -> None:
    """Writes a package that reads prompts and decodes tokens, without PyTorch or Python
    (examples/08_generate).

    The package has the weights once, a program for each of `sizes`, and as its state
    the keys and values of one row.

    model, quantize, calibration, max_length, kv_cache_dtype
                                 as of anabranch.llm.compile
    path                         the package's folder
    sizes                        how many tokens a call may have
    answer                       None, or how many tokens a call generates at most
    targets, config, overwrite   as of anabranch.export

    A call takes three tensors and returns logits, float [1, vocabulary]:

    tokens  int64 [1, size]
    start   int64 [1]: how many tokens the state has already
    last    int64 [1]: the column of `tokens` whose logits are asked for

    Tokens after `last` only fill the call up; the next call overwrites them.

    With `answer`, a call goes on greedily after the prompt, until it has made `count`
    tokens or the token `end`, or the state is full. It takes two tensors more, and
    returns tokens in the place of logits:

    count   int64 [1]: zero where only a part of the prompt is read
    end     int64 [1]: -1 where no token ends an answer

    found   int64 [answer]: the tokens, then -1
    made    int64 [1]: how many they are

    ValueError: what anabranch.llm.compile refuses, or wrong sizes.
    """
    checked_model(model, quantize)
    calibration = checked_calibration(model, quantize, calibration)
    capacity = checked_length(model, max_length)
    stored = stored_dtype(kv_cache_dtype)
    wanted = sorted({size for size in sizes if size <= capacity})
    if not wanted or wanted[0] != 1 or not all(type(size) is int for size in sizes):
        raise ValueError(
            f"sizes must be ints from 1 to {capacity} with 1 among them, got"
            f" {list(sizes)}"
        )
    settings = configure({"freeze": True, "panels": "alike"}, config)
    if quantize is not None:
        model = quantized_once(model, quantize, calibration, settings)
    step = _Step(model, KeyValues(model, capacity, stored).layers, capacity).eval()
    tokens = torch.zeros((1, wanted[-1]), dtype=torch.long)
    zero = torch.zeros(1, dtype=torch.long)
    given = {"tokens": tokens, "start": zero, "last": zero.clone()}
    exported: nn.Module = step
    if answer is not None:
        if type(answer) is not int or answer < 1:
            raise ValueError(f"answer must be an int of one or more, got {answer!r}")
        exported = Answer(step, answer, capacity).eval()
        given |= {"count": zero + answer, "end": zero - 1}
    dynamic = None
    if len(wanted) > 1:
        set_gears(tokens, {1: wanted})
        count = Dim("count", min=1, max=wanted[-1])
        dynamic = dict.fromkeys(given) | {"tokens": {1: count}}
    export_module(
        exported,
        path,
        given,
        dynamic_shapes=dynamic,
        targets=targets,
        config=settings,
        overwrite=overwrite,
    )


class _Step(nn.Module):
    """One call of the package. Its buffers keep the keys and values."""

    def __init__(self, model: Any, layers: Sequence[LayerShape], capacity: int) -> None:
        super().__init__()
        if "position_ids" not in inspect.signature(model.forward).parameters:
            raise ValueError(
                f"{type(model).__name__} takes no position_ids, and a package needs"
                " them to go on where its state ends"
            )
        self.model = model
        self._masks, self._capacity = Masks(model), capacity
        self._keeps = "logits_to_keep" in inspect.signature(model.forward).parameters
        for number, shape in enumerate(layers):
            kept = zip(("keys", "values"), shape.empty(1, shape.heads, capacity))
            for what, parts in kept:
                for name, part in zip(BUFFERS, parts):
                    self.register_buffer(f"{what}{name}{number}", part)
        self._layers = len(layers)

    def _kept(self, what: str, number: int) -> Kept:
        names = (f"{what}{name}{number}" for name in BUFFERS)
        return tuple(getattr(self, name) for name in names if hasattr(self, name))

    def forward(
        self, tokens: torch.Tensor, start: torch.Tensor, last: torch.Tensor
    ) -> torch.Tensor:
        positions = start + torch.arange(tokens.shape[1])
        layers = [
            StateLayer(
                self._kept("keys", number), self._kept("values", number), positions
            )
            for number in range(self._layers)
        ]
        found = self.model(
            input_ids=tokens,
            attention_mask=self._masks.make(positions.unsqueeze(0), self._capacity),
            position_ids=positions.unsqueeze(0),
            past_key_values=Cache(layers=layers),
            use_cache=True,
            **({"logits_to_keep": last} if self._keeps else {}),
            return_dict=True,
        ).logits
        # A view: taking the only column out would be a kernel's work.
        return (found if self._keeps else found[:, last]).flatten(0, 1).float()
