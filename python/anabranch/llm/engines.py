"""The engines that `anabranch chat` compares. Each answers a prompt token by token."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from .chat_tokenizer import ChatTokenizer, LoadedTokenizer

# Takes each token of an answer; false ends the answer.
Put = Callable[[int], bool]
# The longest conversation in tokens, if the model has positions for more.
LENGTH = 1024


class Engine(NamedTuple):
    # Answers the tokens of a prompt, greedily, with at most so many tokens.
    answer: Callable[[list[int], int, Put], None]
    tokenizer: ChatTokenizer
    length: int  # the longest conversation in tokens
    made: str  # how the engine became ready


def make(
    name: str, path: Path, *, dtype: str, quantize: str | None, threads: int
) -> Engine:
    """The engine `name` with the model at `path`.

    dtype     "f32" or "bf16"
    quantize  as of anabranch.llm.compile, for the engine "anabranch" alone
    threads   workers; 0: as many as the engine chooses
    """
    if name == "anabranch":
        from .chat_package import open_or_make

        return open_or_make(path, dtype, quantize, LENGTH, threads)
    if name == "llama.cpp":
        return _llama_cpp(path, threads)
    return _of_pytorch(name, path, dtype, threads)


def _of_pytorch(name: str, path: Path, dtype: str, threads: int) -> Engine:
    import torch

    from . import checkpoint

    if threads:
        torch.set_num_threads(threads)
    model, tokenizer = checkpoint.load(
        path, dtype=checkpoint.DTYPES[dtype], packed=False
    )
    length = conversation_length(model)
    generate = _inductor(model, length) if name == "inductor" else model.generate
    made = "compiled" if name == "inductor" else "warm"
    known = LoadedTokenizer(tokenizer, end_tokens(model, tokenizer))
    return of_generate(generate, known, length, made)


def of_generate(
    generate: Callable[..., Any],
    tokenizer: ChatTokenizer,
    length: int,
    made: str = "compiled",
) -> Engine:
    """The engine of a generate() of transformers."""
    return Engine(_Generating(generate).answer, tokenizer, length, made)


def conversation_length(model: Any) -> int:
    limit = model.config.get_text_config(decoder=True).max_position_embeddings
    return min(LENGTH, limit or LENGTH)


def end_tokens(model: Any, tokenizer: Any) -> frozenset[int]:
    """The tokens that end an answer of the model."""
    found = model.generation_config.eos_token_id
    if found is None:
        found = tokenizer.eos_token_id
    if found is None:
        return frozenset()
    return frozenset([found] if isinstance(found, int) else found)


def _inductor(model: Any, length: int) -> Callable[..., Any]:
    from transformers import CompileConfig

    def generate(**arguments: Any) -> Any:
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


class _Generating:
    """Answers by a generate() of transformers."""

    def __init__(self, generate: Callable[..., Any]) -> None:
        self._generate = generate

    def answer(self, prompt: list[int], new_tokens: int, put: Put) -> None:
        import torch

        def ends(tokens: Any, _: Any, **__: Any) -> Any:
            """A stopping criterion, which sees each new token at once."""
            goes_on = put(int(tokens[0, -1]))
            return torch.tensor([not goes_on])

        tokens = torch.tensor([prompt])
        self._generate(
            input_ids=tokens,
            attention_mask=torch.ones_like(tokens),
            max_new_tokens=new_tokens,
            do_sample=False,
            stopping_criteria=[ends],
        )


def _llama_cpp(path: Path, threads: int) -> Engine:
    """The package llama-cpp-python, which reads only GGUF files."""
    if path.suffix != ".gguf":
        raise ValueError(f"llama.cpp reads .gguf files, and {path} is none")
    from llama_cpp import Llama

    from . import checkpoint

    threads = threads or len(os.sched_getaffinity(0))
    model = Llama(
        str(path),
        n_ctx=LENGTH,
        n_threads=threads,
        n_threads_batch=threads,
        verbose=False,
    )
    tokenizer = checkpoint.load_tokenizer(path)
    known = LoadedTokenizer(tokenizer, frozenset([model.token_eos()]))
    return Engine(TokenByToken(model.generate).answer, known, LENGTH, "warm")


class TokenByToken:
    """Answers by an iterator of tokens."""

    def __init__(self, tokens: Callable[..., Iterator[int]]) -> None:
        self._tokens = tokens

    def answer(self, prompt: list[int], new_tokens: int, put: Put) -> None:
        made = self._tokens(prompt, top_k=1, temp=0.0)
        for count, token in enumerate(made, 1):
            if not put(token) or count == new_tokens:
                break
