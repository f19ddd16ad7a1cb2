"""Compiles language models of Hugging Face's transformers: docs/llm.md.

A public name is imported when it is first used: `export` needs Dynamo, the others need
PyTorch, and a chat from the cache needs neither."""

import importlib as _importlib
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

if _TYPE_CHECKING:
    from .checkpoint import load
    from .exporting import export
    from .language_model import LanguageModel, compile

__all__ = ["LanguageModel", "compile", "export", "load"]

_HOMES = {
    "LanguageModel": "language_model",
    "compile": "language_model",
    "export": "exporting",
    "load": "checkpoint",
}


def __getattr__(name: str) -> _Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(_importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
