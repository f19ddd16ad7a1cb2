"""Handles CPython's code objects: writes their constants so that `marshal` can save
them, renames their globals, and hashes what they do."""

from __future__ import annotations

import dis
import enum
import hashlib
import importlib
import types
from collections.abc import Callable, Mapping
from typing import Any

import torch

# `marshal` saves only Python's own types. A constant of these kinds, or a member of an
# enumeration, becomes the tuple (mark, kind, words...).
_MARK = "anabranch constant"
_KINDS: dict[str, tuple[type, Callable[..., Any]]] = {
    "device": (torch.device, torch.device),
    "dtype": (torch.dtype, lambda name: getattr(torch, name)),
    "layout": (torch.layout, lambda name: getattr(torch, name)),
    "memory_format": (torch.memory_format, lambda name: getattr(torch, name)),
}


def can_be_spelled(value: Any) -> bool:
    """Whether the value itself is a constant of these kinds."""
    return isinstance(value, (enum.Enum, *(class_ for class_, _ in _KINDS.values())))


def is_plain(value: Any) -> bool:
    """Whether a value can be saved and compared: it has no object of this process."""
    if isinstance(value, (tuple, frozenset)):
        return all(map(is_plain, value))
    known = value is None or type(value) in (bool, int, float, str, bytes)
    return known or can_be_spelled(value)


def spelled(value: Any) -> Any:
    """A code object or a constant in a form that `marshal` can save."""
    if isinstance(value, enum.Enum):
        class_ = type(value)
        return (_MARK, "enum", class_.__module__, class_.__qualname__, value.name)
    for kind, (class_, _) in _KINDS.items():
        if isinstance(value, class_):
            return (_MARK, kind, str(value).removeprefix("torch."))
    return _within(value, spelled)


def read(value: Any) -> Any:
    """The inverse of `spelled`."""
    if not isinstance(value, tuple) or value[:1] != (_MARK,):
        return _within(value, read)
    _, kind, *words = value
    if kind == "enum":
        found = importlib.import_module(words[0])
        for name in (*words[1].split("."), words[2]):
            found = getattr(found, name)
        return found
    return _KINDS[kind][1](*words)


def _within(value: Any, change: Callable[[Any], Any]) -> Any:
    if isinstance(value, types.CodeType):
        return value.replace(co_consts=tuple(map(change, value.co_consts)))
    if type(value) in (tuple, frozenset):
        return type(value)(map(change, value))
    return value


def rename(code: types.CodeType, names: Mapping[str, str]) -> types.CodeType:
    constants = tuple(
        rename(constant, names) if isinstance(constant, types.CodeType) else constant
        for constant in code.co_consts
    )
    known = tuple(names.get(name, name) for name in code.co_names)
    return code.replace(co_consts=constants, co_names=known)


def global_names(code: types.CodeType) -> set[str]:
    """The names that the code, and the code inside it, loads from its globals."""
    found = {
        instruction.argval
        for instruction in dis.get_instructions(code)
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME")
    }
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            found |= global_names(constant)
    return found


def code_digest(code: types.CodeType) -> str:
    """A hash of what a function does, independent of its file and line."""
    hash_ = hashlib.sha256(code.co_code)
    names = (code.co_names, code.co_varnames, code.co_freevars, code.co_flags)
    hash_.update(repr((names, code.co_argcount, code.co_kwonlyargcount)).encode())
    for constant in code.co_consts:
        hash_.update(_spell(constant).encode())
    return hash_.hexdigest()


def _spell(constant: Any) -> str:
    if isinstance(constant, types.CodeType):
        return code_digest(constant)
    if isinstance(constant, frozenset):
        return repr(sorted(map(repr, constant)))
    return f"{type(constant).__name__} {constant!r}"
