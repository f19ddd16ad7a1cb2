"""Compiles language models of Hugging Face's transformers: docs/llm.md.

A public name is imported when it is first used: `export` needs Dynamo, the others need
PyTorch, and a chat from the cache needs neither. This wing is a front end: it imports
the core only as `anabranch` and `anabranch.extension`. Start with `language_model`.

language_model    llm.compile: transformers' generate() over compiled steps
steps             compiled prefill and decode
programs          the program for each size of a step
chunk_sizes       cuts prompts into chunks of few sizes
key_values        the static cache of keys and values
kept_states       keys and values as floats, or as bytes with scales
quantize          weights of 8 and 4 bits
quantized_layers  layers that hold such weights
rounded_models    quantised layers in the compile cache
rounding/         how weights become integers
decoding/         the loop of plain calls of generate(), and masks of its steps
sampling/         draws tokens in a compiled graph
speculation/      guesses of tokens, which one step checks
batching/         requests of different lengths over one pool
exporting         llm.export: one package with prefill, decode and state
exported_answer   the loop of a package that generates answers by one call
checkpoint        llm.load: a model and its tokenizer
model_files       finds the files of a model
gguf_model        keeps the integers of a GGUF file
gguf_blocks       unpacks the blocks of a GGUF file
gguf_reading      has transformers parse a GGUF file once
chat              a conversation in the terminal
engines           makes the engines that a chat compares
chatting/         what an engine of a chat does, and Anabranch's own
"""

import importlib as _importlib
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

if _TYPE_CHECKING:
    from .checkpoint import load
    from .exporting import export
    from .language_model import LanguageModel, compile
    from .speculation.eagle_checkpoint import eagle3

__all__ = ["LanguageModel", "compile", "eagle3", "export", "load"]

_HOMES = {
    "LanguageModel": "language_model",
    "compile": "language_model",
    "eagle3": "speculation.eagle_checkpoint",
    "export": "exporting",
    "load": "checkpoint",
}


def __getattr__(name: str) -> _Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(_importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
