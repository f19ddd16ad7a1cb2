"""anabranch.llm.compile: transformers' generate() over compiled steps of a causal language
model."""

from __future__ import annotations

import copy
import functools
import os
from typing import Any

import torch

from .. import Config
from ..extension import ParameterFile, cache_folder, configure, require_memory
from . import quantized_layers
from .batching.batch_steps import BatchSteps
from .batching.blocks import BLOCK, blocks_for
from .batching.paged_cache import Pool
from .batching.scheduler import Batch, spare_slots
from .decoding.decoding_loop import ShortLoop, with_short_loop
from .kept_states import stored_dtype
from .key_values import KeyValues
from .programs import Programs
from .quantize import KINDS
from .rounded_models import quantized_once
from .rounding import layer_inputs
from .sampling.token_draws import SamplingGraphs
from .speculation.eagle_checkpoint import Eagle3
from .speculation.speculation import Speculation
from .steps import Steps

DEFAULT_LENGTH = 1024


def compile(
    model: Any,
    *,
    quantize: str | None = None,
    calibration: Any = None,
    max_batch: int = 1,
    max_length: int | None = None,
    kv_cache_dtype: str | None = None,
    draft: Eagle3 | None = None,
    take_over: bool = False,
    cache_dir: str | os.PathLike[str] | None = None,
    config: Config | None = None,
    **options: Any,
) -> LanguageModel:
    """Compiles a causal language model of transformers.

    model       on the CPU and in eval mode, in float32 or bfloat16; it is not changed.
                Its weights become constants of the compiled steps. Weights of a GGUF
                file (anabranch.llm.load) keep the file's integers
    quantize    None, "int8" (a scale for each 64 columns of a row) or "int4" (scale and
                offset for each 32 columns). Rounds the weights of linear layers, and
                keeps them in the compile cache. "int4" leaves the layer of the logits,
                and those that it would harm most, in "int8"
    calibration  ids of the tokens of a text, in tensors or sequences, for "int4": layers
                are rounded so that they change least on this text. Some thousand tokens
                are enough. None: as what the layers read of random tokens asks for
    max_batch   the most rows of a call: sequences times beams
    max_length  the most tokens of a row, prompt included: the size of the cache of keys
                and values. None: 1024, or fewer if the model has fewer positions
    kv_cache_dtype  None: keys and values stay as the model computes them. "int8",
                "fp8_e4m3" or "fp8_e5m2": integers or floats of eight bits, with a scale
                for each token of a head. The cache then takes a half of the memory of
                bfloat16, and a quarter of that of float32
    draft       None, or a head that anabranch.llm.eagle3 read: it guesses tokens of
                prompts that come alone, and the model checks several at once. The tokens
                stay the same
    take_over   moves the parameters of `model` into a file in the compile cache's folder and
                maps the file. Where steps read packed weights instead, the parameters
                then take no memory. The values of `model` stay the same
    cache_dir   the folder for compiled steps; None: Anabranch's own cache
    config, options  as of anabranch.compile, but `freeze` is on and `panels` is "alike"
                unless they are given

    Returns a LanguageModel. Nothing is compiled before the first call that needs it.
    ValueError: a wrong argument, or a model that is no decoder with a cache of keys and
    values. MemoryError: the weights and the cache do not fit into memory. OSError: the
    file of `take_over` cannot be written.
    """
    checked_model(model, quantize)
    calibration = checked_calibration(model, quantize, calibration)
    original = model
    _check_size("max_batch", max_batch)
    max_length = checked_length(model, max_length)
    stored = stored_dtype(kv_cache_dtype)
    if draft is not None and not isinstance(draft, Eagle3):
        raise TypeError(
            "draft must be what anabranch.llm.eagle3 returns, got"
            f" {type(draft).__name__}; a smaller model is an argument of generate():"
            " assistant_model"
        )
    if not isinstance(take_over, bool):
        raise TypeError(f"take_over must be True or False, got {take_over!r}")
    settings = configure({"freeze": True, "panels": "alike"} | options, config)
    folder = None if cache_dir is None else os.fspath(cache_dir)
    if quantize is not None:
        if not settings.freeze:
            raise ValueError(f"quantize={quantize!r} needs frozen weights: freeze=True")
        _check_floats(model, quantize)
        model = quantized_once(model, quantize, calibration, settings, folder)
    key_values = KeyValues(model, max_length, stored)
    made = LanguageModel(model, max_batch, key_values, settings, folder, draft)
    if take_over:
        made.take_over(original)
    return made


class LanguageModel:
    """generate() of transformers over compiled steps; `anabranch.llm.compile` makes it."""

    def __init__(
        self,
        model: Any,
        max_batch: int,
        key_values: KeyValues,
        config: Config,
        folder: str | None,
        draft: Eagle3 | None = None,
    ) -> None:
        self.max_batch, self.max_length = max_batch, key_values.capacity
        self._key_values = key_values
        _check_memory(model, self._key_values, max_batch, bool(config.freeze))
        self._folder, self._config = folder, config
        self._files: list[ParameterFile] = []
        programs = functools.partial(Programs, config, folder, self._drop_pages)
        self._steps = Steps(model, self._key_values, programs())
        self._batch_steps = functools.cache(
            lambda: BatchSteps(model, programs(), max_batch, key_values.stored)
        )
        self._sampling = SamplingGraphs(programs())
        self._speculation = Speculation(
            model, key_values, programs, self._as_assistant, draft
        )
        self.model = _served(model, self._steps, self._sampling, self._speculation)
        if draft is not None and not isinstance(self.model, ShortLoop):
            raise ValueError(
                f"{type(model).__name__} prepares its steps in a way of its own, and a"
                " head guesses for plain ones: leave out draft"
            )

    @property
    def config(self) -> Any:
        return self.model.config

    @property
    def generation_config(self) -> Any:
        return self.model.generation_config

    def generate(self, inputs: torch.Tensor | None = None, **arguments: Any) -> Any:
        """model.generate(), with the same arguments and results.

        inputs  token ids, int64 [batch, tokens]; also as `input_ids`

        PyTorch runs calls that bring a cache of their own (`cache_implementation`,
        `past_key_values`, `use_cache=False`). With prompt lookup or an assistant, a
        compiled step checks several tokens at once. `assistant_model` is a model of
        transformers, which is compiled like this one, or a LanguageModel. ValueError: an
        empty prompt, or more rows or tokens than the model was compiled for.
        """
        assistant = arguments.get("assistant_model")
        if isinstance(assistant, LanguageModel):
            arguments["assistant_model"] = assistant.model
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
        memory = self._key_values.take(rows)
        found = self.model.generate(
            inputs, past_key_values=self._key_values.cache_over(memory), **arguments
        )
        self._key_values.give_back(memory)
        return found

    def generate_batch(self, prompts: Any, **settings: Any) -> list[torch.Tensor]:
        """Answers prompts of different lengths together (continuous batching). Each
        answer has the tokens that generate() gives its prompt alone.

        prompts   sequences of token ids; any number of them, max_batch at once
        settings  as of Batch.add, for all of them

        Returns int64 [tokens] for each prompt: the prompt and its answer. ValueError:
        as of Batch.add.
        """
        batch = self.batch()
        requests = [batch.add(prompt, **settings) for prompt in prompts]
        batch.run()
        return [torch.tensor(request.tokens) for request in requests]

    def batch(self, cache_tokens: int | None = None) -> Batch:
        """An empty batch, to which requests can be added while it runs.

        cache_tokens  the size of the pool of keys and values: the most tokens of all
                      running requests together. None: max_batch times max_length

        ValueError: the model's rows cannot be at different positions. MemoryError: the
        pool does not fit into memory.
        """
        if cache_tokens is None:
            cache_tokens = self.max_batch * self.max_length
        _check_size("cache_tokens", cache_tokens)
        steps = self._batch_steps()
        blocks, spare = blocks_for(cache_tokens), spare_slots(self.max_batch)
        layers = self._key_values.layers
        require_memory(
            (blocks * BLOCK + spare) * sum(shape.token_bytes() for shape in layers),
            f"a pool of {cache_tokens} tokens",
            "choose a smaller cache_tokens",
        )
        pool = Pool(layers, blocks, spare)
        return Batch(self.model, steps, pool, self.max_batch, self.max_length)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The forward of the compiled model, with its arguments and results."""
        return self.model(*args, **kwargs)

    def prepare(self, prompt_length: int, rows: int = 1) -> None:
        """Compiles the steps for prompts of this many tokens, or reads them from the
        cache, so that the first request does not wait for it.

        prompt_length  tokens of the prompts
        rows           rows of the calls
        """
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

    def _as_assistant(self, model: Any) -> LanguageModel:
        """Compiles an assistant of this model. ValueError: it cannot be compiled."""
        _check_model(model)
        capacity = checked_length(model, None, self.max_length)
        key_values = KeyValues(model, capacity, self._key_values.stored)
        return LanguageModel(model, 1, key_values, self._config, self._folder)

    def take_over(self, model: Any) -> None:
        """Moves the tensors of this model and of the caller's model into mapped files."""
        folder = self._folder or cache_folder()
        for one in dict.fromkeys((self._steps.model, model)):
            tensors = (*one.parameters(), *one.buffers())
            self._files.append(ParameterFile(tensors, folder))
        self._drop_pages()

    def _drop_pages(self) -> None:
        for file in self._files:
            file.drop_pages()

    def _asked(self, arguments: dict[str, Any]) -> Any:
        """Looks up what a call asks for, by name: an argument wins over a
        configuration."""
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


def _served(
    model: Any, steps: Steps, sampling: SamplingGraphs, speculation: Speculation
) -> Any:
    """A model with the same modules, whose forward is that of `steps`, and whose
    decoding loop does less between two steps."""
    served = copy.copy(model)
    served.__class__ = with_short_loop(type(model))
    # nn.Module would make `steps` a part of the model.
    served.__dict__["short_steps"] = steps
    served.__dict__["sampling_graphs"] = sampling
    served.__dict__["speculation"] = speculation

    @functools.wraps(type(model).forward)
    def forward(*args: Any, **kwargs: Any) -> Any:
        return steps.serve(*args, **kwargs)

    # generate() reads the signature of a bound method.
    forward.__wrapped__ = model.forward  # type: ignore[attr-defined]
    served.__dict__["forward"] = forward
    return served


def _brings_a_cache(arguments: dict[str, Any], asked: Any) -> bool:
    return (
        arguments.get("past_key_values") is not None
        or asked("cache_implementation") is not None
        or asked("use_cache") is False
        or arguments.get("custom_generate") is not None
    )


def checked_length(
    model: Any, max_length: int | None, default: int = DEFAULT_LENGTH
) -> int:
    """The most tokens of a row; None: `default`, or fewer if the model has fewer
    positions. ValueError: the model has fewer positions."""
    config = model.config.get_text_config(decoder=True)
    limit = getattr(config, "max_position_embeddings", None)
    if limit is not None and limit <= 0:  # XLNet's way to say that there is none
        limit = None
    if max_length is None:
        max_length = min(limit or default, default)
    _check_size("max_length", max_length)
    if limit and max_length > limit:
        raise ValueError(
            f"max_length is {max_length}, and {type(model).__name__} has positions for"
            f" {limit} tokens"
        )
    return max_length


def checked_model(model: Any, quantize: Any) -> None:
    """The model, quantised as asked. ValueError: it is no decoder that can be compiled."""
    _check_quantize(quantize)
    _check_model(model)


def checked_calibration(model: Any, quantize: Any, calibration: Any) -> Any:
    """The rows of tokens of a calibration; None: there is none. ValueError: wrong
    tokens, or nothing to calibrate."""
    if calibration is None:
        return None
    if quantize != "int4":
        raise ValueError(
            f"calibration is for quantize='int4', and quantize is {quantize!r}"
        )
    return layer_inputs.rows_of(model, calibration)


def _check_quantize(quantize: Any) -> None:
    if quantize is None or quantize in KINDS:
        return
    names = ", ".join(repr(name) for name in KINDS)
    raise ValueError(f"quantize must be None or one of {names}, got {quantize!r}")


def _check_floats(model: Any, quantize: str) -> None:
    few = quantized_layers.count(model)
    if few:
        raise ValueError(
            f"quantize={quantize!r} rounds floats, and {few} linear layers of"
            f" {type(model).__name__} have few bits already: leave it out, or load the"
            " model with packed=False"
        )


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
    """MemoryError: the cache does not fit. Frozen weights are counted twice: packed
    copies take memory of their own."""
    weights = sum(p.numel() * p.element_size() for p in model.parameters())
    require_memory(
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
