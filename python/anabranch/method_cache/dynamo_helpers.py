"""Stands in for the module of helpers that Dynamo's code calls, so that a replay runs the
code without importing Dynamo, which takes seconds."""

from __future__ import annotations

import importlib
import types
from typing import Any

UTILS = "torch._dynamo.utils"


class _Utils(types.ModuleType):
    """Stands for torch._dynamo.utils. It has its own helpers for calls and sizes, and
    takes others from PyTorch's module when Dynamo's code asks for one."""

    @staticmethod
    def call_size(value: Any, dim: int) -> int:
        if dim >= value.dim():
            raise ValueError(
                f"an argument has shape {list(value.shape)}, and the method was compiled"
                f" for one with more dimensions"
            )
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


def helper_module(name: str) -> Any:
    """The module of this name, or its stand-in."""
    return _utils if name == UTILS else importlib.import_module(name)
