"""Language models of Hugging Face's transformers, compiled: docs/llm.md."""

from .checkpoint import load
from .export import export
from .language_model import LanguageModel, compile

__all__ = ["LanguageModel", "compile", "export", "load"]
