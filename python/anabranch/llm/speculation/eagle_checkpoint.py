"""llm.eagle3: reads the head of an EAGLE-3 checkpoint."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import LlamaConfig

from .eagle_head import Eagle3Head
from .placed_steps import MOST_GUESSES

DEFAULT_GUESSES = 3
# Tensors of a checkpoint that say nothing new.
REDUNDANT = ("t2d", "rotary_emb.inv_freq", "midlayer.self_attn.rotary_emb.inv_freq")


@dataclasses.dataclass(frozen=True, eq=False)
class Eagle3:
    """A head that was read, for `draft=` of anabranch.llm.compile."""

    config: Any
    state: dict[str, Tensor]
    guesses: int
    source: str

    def layers(self, model: Any) -> tuple[int, ...]:
        """The numbers of the model's hidden states that the head reads; state 0 is the
        embedding. ValueError: the model does not have them."""
        count = model.config.get_text_config(decoder=True).num_hidden_layers
        named = (getattr(self.config, "eagle_config", None) or {}).get(
            "eagle_aux_hidden_state_layer_ids"
        )
        found = (2, count // 2, count - 3)
        if named is not None:
            found = tuple(number + 1 for number in named)
        # The state behind the last layer is normalised, so no head reads it.
        if len(found) != 3 or not all(0 <= number < count for number in found):
            raise ValueError(
                f"the head of {self.source} reads hidden states {list(found)}, and"
                f" {type(model).__name__} has {count} layers: it belongs to another model"
            )
        return found

    def head(self, model: Any) -> Eagle3Head:
        """The head for this model, in its dtype. ValueError: it belongs to another model,
        or tensors are missing, unknown or of a wrong shape."""
        of_model = model.config.get_text_config(decoder=True)
        if self.config.vocab_size != of_model.vocab_size:
            raise ValueError(
                f"the head of {self.source} is for a vocabulary of"
                f" {self.config.vocab_size} tokens, and {type(model).__name__} has"
                f" {of_model.vocab_size}: it belongs to another model"
            )
        has_own = "embed_tokens.weight" in self.state
        if not has_own and self.config.hidden_size != of_model.hidden_size:
            raise ValueError(
                f"the head of {self.source} has a width of {self.config.hidden_size} and"
                f" no embed_tokens.weight, and the embedding of {type(model).__name__}"
                f" has a width of {of_model.hidden_size}"
            )
        made = Eagle3Head(self.config, of_model.hidden_size, has_own)
        self._check(made)
        made.load_state_dict(self.state, strict=False)
        made = made.to(model.dtype).eval().requires_grad_(False)
        if not has_own:
            made.embed_tokens = model.get_input_embeddings()
        tokens = made.d2t + torch.arange(len(made.d2t))
        if int(tokens.min()) < 0 or int(tokens.max()) >= of_model.vocab_size:
            raise ValueError(
                f"d2t of {self.source} gives tokens from {int(tokens.min())} to"
                f" {int(tokens.max())}, and the vocabulary has {of_model.vocab_size}"
            )
        return made

    def _check(self, head: Eagle3Head) -> None:
        """ValueError: tensors that do not make this head."""
        expected = dict(head.state_dict())
        if self.config.draft_vocab_size == self.config.vocab_size:
            expected.pop("d2t")
        known = {*expected, "d2t"}
        missing, more = (
            sorted({*expected} - {*self.state}),
            sorted({*self.state} - known),
        )
        if missing:
            raise ValueError(f"{self.source} lacks {', '.join(missing)}")
        if more:
            raise ValueError(
                f"{self.source} has tensors that a head of EAGLE-3 with one layer does"
                f" not have: {', '.join(more)}"
            )
        for name, tensor in expected.items():
            if self.state[name].shape != tensor.shape:
                raise ValueError(
                    f"{name} of {self.source} has the shape"
                    f" {list(self.state[name].shape)}, and the configuration asks for"
                    f" {list(tensor.shape)}"
                )


def eagle3(
    source: str | os.PathLike[str] | Mapping[str, Tensor],
    config: Any = None,
    *,
    guesses: int = DEFAULT_GUESSES,
) -> Eagle3:
    """Reads a head of EAGLE-3, for anabranch.llm.compile(model, draft=...).

    source   the folder of a checkpoint (config.json and safetensors, or
             pytorch_model.bin), or its tensors by name
    config   the configuration, as a dict or a LlamaConfig; None: that of the folder
    guesses  tokens that the head guesses before the model checks them, at most 15

    Whether the head fits a model is checked by compile(). FileNotFoundError: the folder
    lacks a file. ValueError: wrong arguments, or a head of another kind.
    """
    if type(guesses) is not int or not 1 <= guesses <= MOST_GUESSES:
        raise ValueError(
            f"guesses must be an int from 1 to {MOST_GUESSES}, got {guesses!r}"
        )
    if isinstance(source, Mapping):
        if config is None:
            raise ValueError("a head that is given as tensors needs config=")
        tensors, name = dict(source), "the head"
    else:
        folder = Path(source)
        tensors, name = _tensors(folder), str(folder)
        config = _config_file(folder) if config is None else config
    made = config if isinstance(config, LlamaConfig) else LlamaConfig(**dict(config))
    made = LlamaConfig(**made.to_dict())
    made._attn_implementation = "sdpa"
    if getattr(made, "draft_vocab_size", None) is None:
        made.draft_vocab_size = made.vocab_size
    _check_kind(made, name)
    state = {_plain_name(key): tensor for key, tensor in tensors.items()}
    state = {key: tensor for key, tensor in state.items() if key not in REDUNDANT}
    return Eagle3(made, state, guesses, name)


def _check_kind(config: Any, name: str) -> None:
    """ValueError: a head that computes something else."""
    of_eagle = getattr(config, "eagle_config", None) or {}
    for key, value, plain in (
        ("num_hidden_layers", config.num_hidden_layers, 1),
        ("use_aux_hidden_state", of_eagle.get("use_aux_hidden_state", True), True),
        ("fc_norm", getattr(config, "fc_norm", False), False),
        ("norm_output", getattr(config, "norm_output", False), False),
    ):
        if value != plain:
            raise ValueError(
                f"{name} has {key}={value!r}, and heads of EAGLE-3 are read that have"
                f" {plain!r}"
            )


def _plain_name(name: str) -> str:
    """Some checkpoints name the layer by its number, or put the head into a model."""
    name = name.removeprefix("model.")
    if name.startswith("layers.0."):
        return "midlayer." + name.removeprefix("layers.0.")
    return name


def _config_file(folder: Path) -> dict[str, Any]:
    path = folder / "config.json"
    if not path.is_file():
        raise FileNotFoundError(f"{folder} has no config.json")
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def _tensors(folder: Path) -> dict[str, Tensor]:
    from safetensors.torch import load_file

    found: dict[str, Tensor] = {}
    for path in sorted(folder.glob("*.safetensors")):
        found |= load_file(path)
    if not found:
        path = folder / "pytorch_model.bin"
        if not path.is_file():
            raise FileNotFoundError(
                f"{folder} has neither *.safetensors nor pytorch_model.bin"
            )
        found = torch.load(path, map_location="cpu", weights_only=True)
    return found
