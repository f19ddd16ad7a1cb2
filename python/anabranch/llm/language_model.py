"""anabranch.llm.compile: a causal language model behind transformers' generate()."""

from __future__ import annotations

import copy
import functools
import os
from typing import Any

import torch

from ..config import Config, resolve
from . import memory
from .key_values import KeyValues
from .quantize import KINDS, quantized
from .steps import Steps

DEFAULT_LENGTH = 1024


def compile(
    model: Any,
    *,
    quantize: str | None = None,
    max_batch: int = 1,
    max_length: int | None = None,
    cache_dir: str | os.PathLike[str] | None = None,
    config: Config | None = None,
    **options: Any,
) -> LanguageModel:
    """A causal language model of transformers with compiled steps.

    model       on the CPU and in eval mode, in float32 or bfloat16; it stays as it
                is. Its weights become constants of the compiled steps.
    quantize    None, "int8" (a scale for each row of a weight) or "int4" (scale and
                offset for each 32 columns; the logits have "int8"). The weights of
                linear layers are rounded to nearest, scales by least squares.
    max_batch   rows at once at most: sequences times beams.
    max_length  tokens of a row at most, prompt included: the cache of keys and
                values has this size. Without it 1024, or what the model can do.
    cache_dir   where compiled steps are kept; else Anabranch's own cache.
    config, options  as of anabranch.compile; `freeze` is on unless it is said.

    Nothing is compiled before the first call that needs it. ValueError: an argument
    that is none of these, or a model that is no decoder with a cache of keys and
    values. MemoryError: there is not enough for weights and cache."""
    _check_quantize(quantize)
    _check_model(model)
    limit = getattr(
        model.config.get_text_config(decoder=True), "max_position_embeddings", None
    )
    if max_length is None:
        max_length = min(limit or DEFAULT_LENGTH, DEFAULT_LENGTH)
    _check_size("max_batch", max_batch)
    _check_size("max_length", max_length)
    if limit and max_length > limit:
        raise ValueError(
            f"max_length is {max_length}, and {type(model).__name__} has positions for"
            f" {limit} tokens"
        )
    settings = resolve({"freeze": True} | options, config=config)
    folder = None if cache_dir is None else os.fspath(cache_dir)
    if quantize is not None:
        if not settings.freeze:
            raise ValueError(f"quantize={quantize!r} needs frozen weights: freeze=True")
        model = quantized(model, quantize)
    return LanguageModel(model, max_batch, max_length, settings, folder)


class LanguageModel:
    """generate() of transformers over compiled steps."""

    def __init__(
        self,
        model: Any,
        max_batch: int,
        max_length: int,
        config: Config,
        folder: str | None,
    ) -> None:
        self.max_batch, self.max_length = max_batch, max_length
        self._key_values = KeyValues(model, max_length)
        _check_memory(model, self._key_values, max_batch, bool(config.freeze))
        self._steps = Steps(model, self._key_values, config, folder)
        self.model = _served(model, self._steps)

    @property
    def config(self) -> Any:
        return self.model.config

    @property
    def generation_config(self) -> Any:
        return self.model.generation_config

    def generate(self, inputs: torch.Tensor | None = None, **arguments: Any) -> Any:
        """model.generate() with the same arguments and results.

        inputs  token ids, int64 [batch, tokens]; also as `input_ids`.

        A call that asks for a cache of its own (`cache_implementation`,
        `past_key_values`, `use_cache=False`) or for assisted decoding gets it, and
        PyTorch runs the model. ValueError: an empty prompt, or more rows or tokens
        than the model was compiled for."""
        prompt = inputs if inputs is not None else arguments.get("input_ids")
        if prompt is not None:
            _check_prompt(prompt, arguments.get("attention_mask"))
        asked = self._asked(arguments)
        if prompt is None or _brings_a_cache(arguments, asked):
            return self.model.generate(inputs, **arguments)
        rows = prompt.shape[0] * max(
            asked("num_beams") or 1, asked("num_return_sequences") or 1
        )
        self._check_rows(rows)
        self._check_length(prompt.shape[1], asked)
        cache = self._key_values.make(rows)
        return self.model.generate(inputs, past_key_values=cache, **arguments)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The model's forward."""
        return self.model(*args, **kwargs)

    def prepare(self, prompt_length: int, rows: int = 1) -> None:
        """Compiles the steps for prompts of this many tokens, or reads them from the
        cache, so that the first request does not wait for it."""
        self._check_rows(rows)
        tokens = torch.zeros((rows, max(1, prompt_length)), dtype=torch.long)
        self.generate(
            tokens,
            attention_mask=torch.ones_like(tokens),
            max_new_tokens=2,
            min_new_tokens=2,
            do_sample=False,
            num_beams=1,
            num_return_sequences=1,
        )

    def _asked(self, arguments: dict[str, Any]) -> Any:
        """What a call sets by name: an argument wins over a configuration."""
        given = arguments.get("generation_config")

        def asked(name: str) -> Any:
            for value in (
                arguments.get(name),
                getattr(given, name, None),
                getattr(self.generation_config, name, None),
            ):
                if value is not None:
                    return value
            return None

        return asked

    def _check_rows(self, rows: int) -> None:
        if rows > self.max_batch:
            raise ValueError(
                f"the call has {rows} rows (sequences times beams) and the model was"
                f" compiled for {self.max_batch}: compile it with a larger max_batch"
            )

    def _check_length(self, prompt: int, asked: Any) -> None:
        new, most = asked("max_new_tokens"), asked("max_length")
        total = prompt + new if new is not None else max(prompt, most or 0)
        if total > self.max_length:
            parts = f"{prompt} of the prompt" + (f" and {new} new ones" if new else "")
            raise ValueError(
                f"the call may reach {total} tokens ({parts}) and the cache holds"
                f" {self.max_length}: compile the model with a larger max_length, or"
                " ask for fewer"
            )


def _served(model: Any, steps: Steps) -> Any:
    """The same model, with the same modules, whose forward is that of `steps`."""
    served = copy.copy(model)

    @functools.wraps(type(model).forward)
    def forward(*args: Any, **kwargs: Any) -> Any:
        return steps.serve(*args, **kwargs)

    # The signature that generate() reads is that of a bound method.
    forward.__wrapped__ = model.forward  # type: ignore[attr-defined]
    served.__dict__["forward"] = forward
    return served


def _brings_a_cache(arguments: dict[str, Any], asked: Any) -> bool:
    return (
        arguments.get("past_key_values") is not None
        or asked("cache_implementation") is not None
        or asked("use_cache") is False
        or arguments.get("assistant_model") is not None
        or asked("prompt_lookup_num_tokens") is not None
        or arguments.get("custom_generate") is not None
    )


def _check_quantize(quantize: Any) -> None:
    if quantize is None or quantize in KINDS:
        return
    names = ", ".join(repr(name) for name in KINDS)
    raise ValueError(f"quantize must be None or one of {names}, got {quantize!r}")


def _check_model(model: Any) -> None:
    name = type(model).__name__
    if not hasattr(model, "generate") or not hasattr(model, "config"):
        raise ValueError(
            f"{name} is no model of transformers with generate(): load it with"
            " AutoModelForCausalLM.from_pretrained"
        )
    if model.config.is_encoder_decoder:
        raise ValueError(
            f"{name} is an encoder with a decoder, and anabranch.llm compiles decoders"
            " alone: call its generate() with compile_config instead"
        )
    if model.training:
        raise ValueError(f"{name} is in training mode: call model.eval() first")
    if model.device.type != "cpu":
        raise ValueError(f"{name} is on {model.device}: move it to the CPU first")


def _check_size(name: str, value: Any) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError(f"{name} must be a positive int, got {value!r}")


def _check_memory(model: Any, key_values: KeyValues, rows: int, freeze: bool) -> None:
    """Frozen weights are packed into memory of their own."""
    weights = sum(p.numel() * p.element_size() for p in model.parameters())
    memory.require(
        key_values.bytes(rows) + (weights if freeze else 0),
        f"the cache of {rows} x {key_values.capacity} tokens beside packed weights",
        "choose a smaller max_length or max_batch, or bfloat16",
    )


def _check_prompt(prompt: torch.Tensor, mask: torch.Tensor | None) -> None:
    if prompt.dim() != 2 or prompt.numel() == 0:
        raise ValueError(
            "the prompt is empty: generate() takes token ids of shape [batch, tokens]"
            f" with at least one token, got {list(prompt.shape)}"
        )
    if mask is not None and mask.dim() == 2 and not bool(mask.any(1).all()):
        raise ValueError("a prompt of the batch is empty: its attention mask is all 0")
