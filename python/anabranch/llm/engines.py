"""The engines that `anabranch chat` compares. Each answers a prompt token by token."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from .chatting.chat_engine import (
    LENGTH,
    Engine,
    Precision,
    Put,
    conversation_length,
    end_tokens,
    of_generate,
)
from .chatting.chat_tokenizer import LoadedTokenizer


def make(name: str, path: Path, precision: Precision, threads: int) -> Engine:
    """The engine `name` with the model at `path`.

    threads  workers; 0: as many as the engine chooses
    """
    if name == "anabranch":
        from .chatting.chat_package import open_or_make

        return open_or_make(path, precision, LENGTH, threads)
    if name == "llama.cpp":
        return _llama_cpp(path, threads)
    if name == "openvino":
        return _openvino(path, precision.dtype, threads)
    return _of_pytorch(name, path, precision.dtype, threads)


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


def _openvino(path: Path, dtype: str, threads: int) -> Engine:
    """OpenVINO GenAI, with the types of a GGUF file's weights."""
    if path.suffix != ".gguf" and not (path / "openvino_model.xml").exists():
        raise ValueError(
            f"OpenVINO GenAI reads .gguf files and folders with openvino_model.xml, and"
            f" {path} is neither"
        )
    import openvino_genai

    from . import checkpoint

    # It computes in bf16 where a CPU has fast instructions for it, if not told.
    options: dict[str, Any] = {"INFERENCE_PRECISION_HINT": dtype}
    if threads:
        options["INFERENCE_NUM_THREADS"] = threads
    pipeline = openvino_genai.LLMPipeline(str(path), "CPU", **options)
    tokenizer = checkpoint.load_tokenizer(path)
    ends = frozenset([pipeline.get_generation_config().eos_token_id])
    ends |= {tokenizer.eos_token_id} - {None}
    known = LoadedTokenizer(tokenizer, ends)
    return Engine(GenAI(pipeline).answer, known, LENGTH, "warm")


class GenAI:
    """Answers by a pipeline of OpenVINO GenAI."""

    def __init__(self, pipeline: Any) -> None:
        self._pipeline = pipeline

    def answer(self, prompt: list[int], new_tokens: int, put: Put) -> None:
        import numpy as np
        import openvino
        import openvino_genai

        running = openvino_genai.StreamingStatus.RUNNING
        stop = openvino_genai.StreamingStatus.STOP

        class Streamer(openvino_genai.StreamerBase):  # type: ignore[misc]
            def write(self, tokens: Any) -> Any:
                """Gets one token, or several that were made together."""
                each = [tokens] if isinstance(tokens, int) else tokens
                return running if all(map(put, each)) else stop

            def end(self) -> None:
                pass

        config = self._pipeline.get_generation_config()
        config.max_new_tokens, config.do_sample = new_tokens, False
        # The chat ends an answer at a token that ends it.
        config.ignore_eos = True
        tokens = openvino.Tensor(np.array([prompt], dtype=np.int64))
        self._pipeline.generate(tokens, config, Streamer())
