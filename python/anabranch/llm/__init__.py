"""Language models of Hugging Face's transformers, compiled: docs/llm.md."""

from .language_model import LanguageModel, compile

__all__ = ["LanguageModel", "compile"]
