"""The engines that `anabranch chat` compares. Each gives a `generate()` over tokens."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch

from . import checkpoint
from .language_model import compile

Generate = Callable[..., torch.Tensor | None]
# The longest conversation in tokens, if the model has positions for more.
LENGTH = 1024


class Engine(NamedTuple):
    generate: Generate
    tokenizer: Any
    length: int  # the longest conversation in tokens


def make(
    name: str, path: Path, *, dtype: torch.dtype, quantize: str | None, threads: int
) -> Engine:
    """The engine `name` with the model at `path`.

    threads   workers; 0: as many as the engine chooses
    quantize  as of anabranch.llm.compile, for the engine "anabranch" alone
    """
    if threads:
        torch.set_num_threads(threads)
    if name == "llama.cpp":
        return _llama_cpp(path, threads)
    packed = name == "anabranch" and quantize is None
    model, tokenizer = checkpoint.load(path, dtype=dtype, packed=packed)
    limit = model.config.get_text_config(decoder=True).max_position_embeddings
    length = min(LENGTH, limit or LENGTH)
    generate: Generate = model.generate
    if name == "anabranch":
        generate = compile(
            model, quantize=quantize, max_length=length, threads=threads
        ).generate
    elif name == "inductor":
        generate = _inductor(model, length)
    return Engine(generate, tokenizer, length)


def _inductor(model: Any, length: int) -> Generate:
    from transformers import CompileConfig

    def generate(**arguments: Any) -> torch.Tensor:
        # On a CPU transformers compiles decoding only if this is set.
        settings = CompileConfig(backend="inductor", mode=None)
        settings._compile_all_devices = True
        return model.generate(
            **arguments,
            cache_implementation="static",
            max_cache_len=length,
            compile_config=settings,
        )

    return generate


def _llama_cpp(path: Path, threads: int) -> Engine:
    """The package llama-cpp-python, which reads only GGUF files."""
    if path.suffix != ".gguf":
        raise ValueError(f"llama.cpp reads .gguf files, and {path} is none")
    from llama_cpp import Llama

    threads = threads or len(os.sched_getaffinity(0))
    model = Llama(
        str(path),
        n_ctx=LENGTH,
        n_threads=threads,
        n_threads_batch=threads,
        verbose=False,
    )
    generate = _Greedy(model.generate, model.token_eos())
    return Engine(generate, checkpoint.load_tokenizer(path), LENGTH)


class _Greedy:
    """generate() with transformers' arguments over an iterator of tokens: greedy, one
    row."""

    def __init__(self, tokens: Callable[..., Iterator[int]], end: int) -> None:
        self._tokens, self._end = tokens, end

    def __call__(
        self,
        *,
        input_ids: torch.Tensor,
        streamer: Any,
        stopping_criteria: Any,
        max_new_tokens: int,
        **_: Any,
    ) -> None:
        streamer.put(input_ids)
        made = self._tokens(input_ids[0].tolist(), top_k=1, temp=0.0)
        for count, token in enumerate(made, 1):
            streamer.put(torch.tensor([token]))
            stops = token == self._end or count == max_new_tokens
            if stops or bool(stopping_criteria(input_ids, None).any()):
                break
        streamer.end()
