"""What Dynamo's code calls, without Dynamo: importing it takes seconds.

The few helpers that its code for calls and sizes uses are written here; anything
else is taken from PyTorch's module when it is asked for.
"""

from __future__ import annotations

import importlib
import types
from typing import Any

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
