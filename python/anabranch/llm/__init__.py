"""Compiles language models of Hugging Face's transformers: docs/llm.md."""

from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

from .checkpoint import load
from .language_model import LanguageModel, compile

if _TYPE_CHECKING:
    from .exporting import export

__all__ = ["LanguageModel", "compile", "export", "load"]


def __getattr__(name: str) -> _Any:
    """Imports `export` when it is asked for: it needs Dynamo, and a start from the
    cache does not."""
    if name != "export":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from .exporting import export

    return export
