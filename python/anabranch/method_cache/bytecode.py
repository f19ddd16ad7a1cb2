"""What Dynamo's code calls, without Dynamo: importing it takes seconds.

The few helpers that its code for calls and sizes uses are written here; anything
else is taken from PyTorch's module when it is asked for.
"""

from __future__ import annotations

import enum
import importlib
import types
from collections.abc import Callable
from typing import Any

import torch

UTILS = "torch._dynamo.utils"


class _Utils(types.ModuleType):
    """Stands for torch._dynamo.utils."""

    @staticmethod
    def call_size(value: Any, dim: int) -> int:
        return value.size(dim)

    @staticmethod
    def call_stride(value: Any, dim: int) -> int:
        return value.stride(dim)

    @staticmethod
    def call_storage_offset(value: Any) -> int:
        return value.storage_offset()

    @staticmethod
    def object_setattr_ignore_descriptor(value: Any, name: str, to: Any) -> None:
        object.__getattribute__(value, "__dict__")[name] = to

    @staticmethod
    def record_pregraph_bytecode_enter() -> None:
        return None

    @staticmethod
    def record_pregraph_bytecode_exit(entered: Any) -> None:
        return None

    def __getattr__(self, name: str) -> Any:
        return getattr(importlib.import_module(UTILS), name)


_utils = _Utils(UTILS)


def module(name: str) -> Any:
    return _utils if name == UTILS else importlib.import_module(name)


# What is marshalled has the types of Python alone. Constants of these kinds, and
# members of enumerations, stand there as (mark, kind, words...).
_MARK = "anabranch constant"
_KINDS: dict[str, tuple[type, Callable[..., Any]]] = {
    "device": (torch.device, torch.device),
    "dtype": (torch.dtype, lambda name: getattr(torch, name)),
    "layout": (torch.layout, lambda name: getattr(torch, name)),
    "memory_format": (torch.memory_format, lambda name: getattr(torch, name)),
}


def can_be_spelled(value: Any) -> bool:
    """Whether it is a constant of these kinds, by itself."""
    return isinstance(value, (enum.Enum, *(class_ for class_, _ in _KINDS.values())))


def spelled(value: Any) -> Any:
    """Code, or a constant of one, with such constants spelled."""
    if isinstance(value, enum.Enum):
        class_ = type(value)
        return (_MARK, "enum", class_.__module__, class_.__qualname__, value.name)
    for kind, (class_, _) in _KINDS.items():
        if isinstance(value, class_):
            return (_MARK, kind, str(value).removeprefix("torch."))
    return _within(value, spelled)


def read(value: Any) -> Any:
    """What was spelled so."""
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
