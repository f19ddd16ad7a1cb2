"""One compilation of a method as it is saved: the one place that writes, reads and
checks it.

The index of an entry is JSON, which anyone may read. `code.bin` beside it is
marshalled. It is read only after the index was found to fit this method, this Python
and this PyTorch. docs/design/cache.md lists the fields."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import marshal
import os
import types
from collections.abc import Mapping
from typing import Any

import torch

from . import bytecode
from .calling import Calling
from .source import Path, Source, look_up

CODE = "code.bin"
# the report of the compilation, which is parsed only for those who ask for it
REPORT = "report.json"
VERSION = 5
_INDEX = ("identity", "sources", "kernels", "meta")


class NotCacheable(Exception):
    """The compilation cannot be replayed; the message says why."""


class Stale(Exception):
    """The entry does not fit what is called now."""


class Changed(Stale):
    """Frozen weights or PyTorch's global state differ from those of the first call. The
    entry stays valid for processes where they do not."""


@dataclasses.dataclass
class Recording:
    """All that a later process needs besides the package."""

    identity: str  # the entry's key: method, configuration and versions
    sources: dict[str, str]  # hashes of the files that the trace went through
    calling: Calling
    kernels: list[str]  # keys of programs for exact shapes
    # the source that Dynamo made of the method, for people who read the entry
    meta: dict[str, Any]
    code: types.CodeType  # that Dynamo made of the method
    globals: dict[str, list[Any]]  # how to make the globals that Dynamo added
    # values that the trace depends on, by their sources
    constants: list[tuple[Source, Any]]
    # types that the trace depends on, as `identity` names them
    types: list[tuple[Source, Any]]
    # hashes of the functions and classes that the trace went through
    identities: list[Source]
    # Arguments of the graph that the module holds, by number. None: the code passes all
    # arguments itself.
    fetched: list[tuple[int, Path]] | None

    def index(self) -> str:
        """The text of the index."""
        saved = {name: getattr(self, name) for name in _INDEX}
        saved |= {"version": VERSION, "calling": self.calling.as_json()}
        return json.dumps(saved, default=str)

    def blob(self) -> bytes:
        """The contents of `code.bin`. NotCacheable: a value cannot be marshalled."""
        saved = {
            "version": VERSION,
            "code": bytecode.spelled(self.code),
            "globals": self.globals,
            "constants": [
                (source.spelled(), bytecode.spelled(value))
                for source, value in self.constants
            ],
            "types": [(source.spelled(), name) for source, name in self.types],
            "identities": [source.spelled() for source in self.identities],
            "fetched": self.fetched,
        }
        try:
            return marshal.dumps(saved)
        except ValueError as error:
            raise NotCacheable("its code holds an object") from error

    def frozen_weights(self, module: torch.nn.Module) -> list[torch.Tensor]:
        """The frozen arguments that this module holds."""
        paths = dict(self.fetched or ())
        found = [
            look_up(module, paths[number])
            for number, _ in self.calling.constants
            if number in paths
        ]
        return [value for value in found if isinstance(value, torch.Tensor)]

    @classmethod
    def read(cls, index: str, folder: str, identity: str) -> Recording:
        """The recording in `folder`, whose index has this text. Stale: it is of another
        version or method, or a file that the trace went through has changed."""
        saved = json.loads(index)
        if saved.get("version") != VERSION or saved["identity"] != identity:
            raise Stale("it is of another method, configuration or version")
        for path, known in saved["sources"].items():
            if file_hash(path) != known:
                raise Stale(f"{path} was changed")
        rest = _read_code(folder)
        return cls(
            **{name: saved[name] for name in _INDEX},
            calling=Calling.from_json(saved["calling"]),
            code=bytecode.read(rest["code"]),
            globals=rest["globals"],
            constants=[
                (Source.read(source), bytecode.read(value))
                for source, value in rest["constants"]
            ],
            types=[(Source.read(source), name) for source, name in rest["types"]],
            identities=[Source.read(source) for source in rest["identities"]],
            fetched=rest["fetched"],
        )


@dataclasses.dataclass(frozen=True)
class SavedCode:
    """The contents of `code.bin` for readers, in the form in which they are saved."""

    code: types.CodeType
    # expressions that calls compare, with their values
    constants: list[tuple[str, Any]]
    types: list[tuple[str, str]]  # expressions whose value is a class, and its name
    identities: list[str]  # expressions whose object must stay the same


def code_in(folder: str) -> SavedCode:
    """The code that the recording in `folder` runs, and what it compares."""
    rest = _read_code(folder)
    return SavedCode(
        rest["code"],
        [(source[0], value) for source, value in rest["constants"]],
        [(source[0], f"{name[0]}.{name[1]}") for source, name in rest["types"]],
        [source[0] for source in rest["identities"]],
    )


def _read_code(folder: str) -> Mapping[str, Any]:
    with open(os.path.join(folder, CODE), "rb") as file:
        saved = marshal.loads(file.read())
    if not isinstance(saved, dict) or saved.get("version") != VERSION:
        raise Stale(f"{CODE} is of another version")
    return saved


def file_hash(path: str) -> str:
    """SHA-256 of a file's contents; empty if the file cannot be read."""
    try:
        with open(path, "rb") as file:
            return hashlib.sha256(file.read()).hexdigest()
    except OSError:
        return ""
