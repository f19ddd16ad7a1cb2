"""Loads a model and its tokenizer: from a folder, a GGUF file, or the default model."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from ..extension import collector_at_rest, require_memory
from . import gguf_model
from .gguf_reading import parsed_once
from .model_files import find

# Inside `_reading`, globals of other packages and sys.stderr are replaced.
_one_at_a_time = threading.RLock()

DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}


def load(
    name: str | os.PathLike[str],
    *,
    dtype: torch.dtype = torch.float32,
    packed: bool = True,
) -> tuple[Any, Any]:
    """A model of transformers and its tokenizer, from files of this machine.

    name    a model's folder, a .gguf file, or "SmolLM2", which a package carries
    dtype   of activations and of all weights that are floats
    packed  whether linear layers and embeddings of a .gguf file keep its integers;
            otherwise its weights become floats

    Returns (model, tokenizer). ValueError: there is no such model, or it cannot be
    read. MemoryError: its weights do not fit into memory.
    """
    path = find(os.fspath(name))
    # Weights take as much memory as on disk, at least, and packing them takes as much
    # again.
    require_memory(
        2 * _bytes(path), f"{path.name}", "choose a smaller model, or free memory"
    )
    with collector_at_rest(), _reading(path) as (folder, more):
        from transformers import AutoModelForCausalLM, AutoTokenizer

        tokenizer = AutoTokenizer.from_pretrained(folder, **more)
        if packed and path.suffix == ".gguf" and gguf_model.knows(path):
            model = gguf_model.load(path, dtype)
        else:
            model = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, **more)
    known = model.get_input_embeddings().weight.shape[0]
    if len(tokenizer) > known:
        raise ValueError(
            f"the tokenizer of {path} knows {len(tokenizer)} tokens and the model"
            f" {known}: they do not belong together"
        )
    return model.eval(), tokenizer


def load_tokenizer(path: Path) -> Any:
    """The tokenizer of a path that `find` returned."""
    from transformers import AutoTokenizer

    with _reading(path) as (folder, more):
        return AutoTokenizer.from_pretrained(folder, **more)


@contextlib.contextmanager
def _reading(path: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """Options for transformers' loaders. Inside the block, transformers and other
    packages print no progress bars."""
    from transformers.utils import logging

    logging.disable_progress_bar()
    with _one_at_a_time, contextlib.ExitStack() as stack:
        folder, more = str(path), {}
        if path.suffix == ".gguf":
            _require_gguf()
            folder, more = str(path.parent), {"gguf_file": path.name}
            stack.enter_context(parsed_once())
        stack.enter_context(contextlib.redirect_stderr(io.StringIO()))
        yield folder, more


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
