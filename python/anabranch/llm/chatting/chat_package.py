"""The engine of a chat: a package of the model, which a later start finds in the cache.

A start from the cache imports neither PyTorch nor transformers. The package keeps keys
and values of the conversation, so a turn reads only the tokens that are new."""

from __future__ import annotations

import importlib.metadata
import os
import tempfile
from pathlib import Path
from typing import Any

from ... import Config
from ...extension import (
    CHAT_PACKAGE,
    CHATS,
    CacheEntry,
    find_entry,
    keep_cache_small,
)
from .. import model_files
from ..chunk_sizes import chunks
from .chat_engine import (
    Engine,
    Precision,
    Put,
    conversation_length,
    end_tokens,
    of_generate,
)
from .chat_tokenizer import ChatTokenizer, LoadedTokenizer, SavedTokenizer

TOKENIZER = "tokenizer.json"
# Tokens of a call: one to decode, more to read a prompt.
SIZES = (1, 16, 64, 256)


def open_or_make(path: Path, precision: Precision, length: int, threads: int) -> Engine:
    """The engine, from the cache or made for it."""
    # Without a cache the package is in a temporary folder.
    entry = find_entry(CHATS, lambda: _key(path, precision, length), Config())
    try:
        if entry is not None and entry.read() is not None:
            try:
                return _open(entry.folder, path, threads, "from the cache")
            except (RuntimeError, OSError, ValueError) as error:
                entry.discard(str(error))
        return _make(entry, path, precision, length, threads)
    finally:
        if entry is not None:
            entry.close()


# Folders that exist until the process ends.
_scratch: list[Any] = []


def _key(path: Path, precision: Precision, length: int) -> list[Any]:
    """All that the package and its tokenizer depend on, besides the machine and the
    sources."""
    versions = [importlib.metadata.version(name) for name in ("torch", "transformers")]
    model = model_files.stamp(path)
    return [versions, model, *precision, length, SIZES]


def _make(
    entry: CacheEntry | None,
    path: Path,
    precision: Precision,
    length: int,
    threads: int,
) -> Engine:
    from ... import CompileError
    from .. import checkpoint
    from ..exporting import export
    from ..language_model import compile

    quantize, config = precision.quantize, Config(activations=precision.activations)
    model, tokenizer = checkpoint.load(
        path, dtype=checkpoint.DTYPES[precision.dtype], packed=quantize is None
    )
    length = min(length, conversation_length(model))
    known = LoadedTokenizer(tokenizer, end_tokens(model, tokenizer))
    scratch = tempfile.TemporaryDirectory(prefix="anabranch-chat-")
    folder = os.path.join(scratch.name, CHAT_PACKAGE)
    try:
        export(
            model,
            folder,
            quantize=quantize,
            max_length=length,
            sizes=SIZES,
            config=config,
        )
    except (CompileError, ValueError):
        # A package cannot have the model's biases of distances or an operator that only
        # PyTorch has. generate() can.
        compiled = compile(
            model,
            quantize=quantize,
            max_length=length,
            threads=threads,
            activations=precision.activations,
        )
        return of_generate(compiled.generate, known, length)
    # Empty: the chat loads the tokenizer of transformers.
    saved = (known.saved() or "").encode()
    if entry is not None and _keep(entry, folder, saved):
        scratch.cleanup()
        return _open(entry.folder, path, threads, "compiled")
    Path(scratch.name, TOKENIZER).write_bytes(saved)
    _scratch.append(scratch)
    return _open(scratch.name, path, threads, "compiled")


def _keep(entry: CacheEntry, package: str, tokenizer: bytes) -> bool:
    """Moves the package into the cache, unless the cache cannot be used."""
    with tempfile.TemporaryDirectory() as nothing:
        kept = entry.publish(nothing, {TOKENIZER: tokenizer}, "chat")
    if not kept or not entry.add_folder(package, CHAT_PACKAGE):
        return False
    keep_cache_small()
    return True


def _open(folder: str, path: Path, threads: int, made: str) -> Engine:
    from ... import load

    package = load(os.path.join(folder, CHAT_PACKAGE), threads=threads)
    answering = PackagedModel(package, SIZES)
    saved = Path(folder, TOKENIZER).read_text()
    tokenizer = SavedTokenizer(saved) if saved else _loaded(path)
    return Engine(answering.answer, tokenizer, answering.length, made)


def _loaded(path: Path) -> ChatTokenizer:
    from .. import checkpoint

    tokenizer = checkpoint.load_tokenizer(path)
    end = tokenizer.eos_token_id
    return LoadedTokenizer(tokenizer, frozenset(() if end is None else (end,)))


class PackagedModel:
    """Answers greedily by a package that anabranch.llm.export wrote."""

    def __init__(self, package: Any, sizes: tuple[int, ...]) -> None:
        self._package = package
        self._sizes = tuple(size for size in sizes if size > 1)
        # The states are keys and values, [1, heads, length, size] for each layer.
        states = set(package.state)
        shapes = [info["shape"] for info in package.inputs if info["name"] in states]
        self.length: int = shapes[0][2]
        self._known: list[int] = []  # tokens whose keys and values the state has

    def answer(self, prompt: list[int], new_tokens: int, put: Put) -> None:
        token = self._read(prompt)
        for _ in range(new_tokens - 1):
            if not put(token):
                return
            token = self._read([*self._known, token])
        put(token)

    def _read(self, tokens: list[int]) -> int:
        """The token that follows these. Reads those that the state does not have."""
        begin = 0
        for mine, asked in zip(self._known, tokens[:-1]):
            if mine != asked:
                break
            begin += 1
        del self._known[begin:]
        new = tokens[begin:]
        room = self.length - begin
        found = 0
        for first, end, size in chunks(len(new), room, self._sizes, (1,)):
            part = new[first:end]
            found = self._step(part + part[-1:] * (size - len(part)), len(part))
            self._known += part
        return found

    def _step(self, tokens: list[int], count: int) -> int:
        """The token after the first `count` ones; the others fill the call up."""
        import numpy

        logits = self._package(
            tokens=numpy.array([tokens]),
            start=numpy.array([len(self._known)]),
            last=numpy.array([count - 1]),
        )
        return int(logits[0].argmax())
