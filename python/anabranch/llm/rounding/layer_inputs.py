"""The inputs of a model's linear layers, measured in one run over tokens."""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
from collections.abc import Iterable
from typing import Any

import torch
from torch import nn

# Tokens of a row of a run. A longer text becomes several rows.
ROW = 512
# Rows of random tokens. A single row tells too little about columns that few tokens
# reach: perplexity of SmolLM2 rises by 4.0 % with it, and by 3.4 % with eight.
ROWS = 8
# A column counts at least as much as this part of the mean one: the tokens of a run may
# not be those that reach it.
LEAST = 0.01


@dataclasses.dataclass
class Reading:
    """The mean squares of one layer's inputs and outputs."""

    tokens: int
    inputs: torch.Tensor  # float32 [columns]: the mean square of each column
    output: float  # the mean square of all outputs of the same tokens

    def importance(self) -> torch.Tensor:
        """The cost of a squared error of a column's weights, float32 [columns]."""
        return at_least(self.inputs)


def at_least(squares: torch.Tensor) -> torch.Tensor:
    """Mean squares of columns, none of them zero."""
    floor = LEAST * squares.mean()
    return squares + torch.where(floor > 0, floor, 1)


def flat(x: torch.Tensor) -> torch.Tensor:
    """An input or output as float32 [tokens, columns]."""
    return x.reshape(-1, x.shape[-1]).float()


@torch.no_grad()
def read(
    model: Any, layers: Iterable[nn.Module], tokens: torch.Tensor
) -> dict[nn.Module, Reading]:
    """Runs the model over tokens [rows, columns]. A layer that the run does not reach,
    such as an expert, has no reading."""
    found: dict[nn.Module, Reading] = {}

    def note(layer: nn.Module, given: tuple[Any, ...], output: torch.Tensor) -> None:
        inputs = flat(given[0])
        if len(inputs) == 0:
            return
        bias = getattr(layer, "bias", None)
        plain = flat(output if bias is None else output - bias)
        new = Reading(
            len(inputs), inputs.square().mean(0), plain.square().mean().item()
        )
        old = found.get(layer)
        found[layer] = new if old is None else _joined(old, new)

    with contextlib.ExitStack() as stack:
        for layer in layers:
            hook = layer.register_forward_hook(note)
            stack.callback(hook.remove)
        for row in tokens.split(1):  # The results of layers for one row take memory.
            run(model, row)
    return found


def _joined(one: Reading, two: Reading) -> Reading:
    total = one.tokens + two.tokens
    part = two.tokens / total
    inputs = one.inputs.lerp(two.inputs, part)
    return Reading(total, inputs, one.output + (two.output - one.output) * part)


@torch.no_grad()
def run(model: Any, tokens: torch.Tensor) -> None:
    """Calls the model for its inner layers' sake."""
    keeps = "logits_to_keep" in inspect.signature(model.forward).parameters
    model(tokens, use_cache=False, **({"logits_to_keep": 1} if keeps else {}))


def random_tokens(model: Any) -> torch.Tensor:
    """Rows of tokens, the same ones in all processes."""
    words = model.get_input_embeddings().weight.shape[0]
    generator = torch.Generator().manual_seed(0)
    return torch.randint(0, words, (ROWS, _row(model)), generator=generator)


def rows_of(model: Any, text: Any) -> torch.Tensor:
    """The ids of a text's tokens as rows, int64 [rows, columns].

    text  ids of any shape, or sequences of ids. The ids that do not fill the last row
          are left out

    ValueError: there is none, or the model has no such token.
    """
    ids = _ids(text)
    if ids.numel() == 0:
        raise ValueError("calibration has no tokens: give the ids of a text")
    words = model.get_input_embeddings().weight.shape[0]
    low, high = int(ids.min()), int(ids.max())
    if low < 0 or high >= words:
        raise ValueError(
            f"calibration has the token {low if low < 0 else high}, and"
            f" {type(model).__name__} knows {words}"
        )
    row = min(_row(model), ids.numel())
    count = ids.numel() // row
    return ids[: count * row].view(count, row)


def _ids(text: Any) -> torch.Tensor:
    parts = [text] if isinstance(text, torch.Tensor) else [*text]
    wrong = [part for part in parts if isinstance(part, str)]
    tensors = [torch.as_tensor(part) for part in parts if not isinstance(part, str)]
    wrong += [t.dtype for t in tensors if t.is_floating_point() and t.numel()]
    if wrong:
        raise ValueError(
            f"calibration takes ids of tokens, got {wrong[0]!r}: call the tokenizer of"
            " the model on the text"
        )
    ids = [tensor.reshape(-1).long() for tensor in tensors]
    return torch.cat(ids) if ids else torch.empty(0, dtype=torch.long)


def _row(model: Any) -> int:
    config = model.config.get_text_config(decoder=True)
    return min(ROW, getattr(config, "max_position_embeddings", None) or ROW)
