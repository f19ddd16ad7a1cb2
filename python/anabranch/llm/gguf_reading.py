"""transformers asks for a GGUF file again for the configuration, the tokenizer and the
weights; here the `gguf` package parses it once."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any


@contextlib.contextmanager
def parsed_once() -> Iterator[None]:
    """Inside the block all readers of one file are the same reader, and so are all
    name maps of one architecture and the values of a file's fields. What is read is
    the same."""
    import gguf
    from transformers import modeling_gguf_pytorch_utils as reading

    before = gguf.GGUFReader, gguf.get_tensor_name_map, reading.load_gguf_checkpoint
    gguf.GGUFReader = functools.cache(_fast_reader(before[0]))  # type: ignore
    gguf.get_tensor_name_map = functools.cache(before[1])
    reading.load_gguf_checkpoint = _fields_once(before[2])
    try:
        yield
    finally:
        gguf.GGUFReader, gguf.get_tensor_name_map = before[:2]  # type: ignore
        reading.load_gguf_checkpoint = before[2]


def _fields_once(load: Callable[..., Any]) -> Callable[..., Any]:
    """`load_gguf_checkpoint`, which makes Python's values of all fields at each call:
    a list for each of a vocabulary's. Each caller gets containers of its own."""
    known: dict[str, Any] = {}

    def load_once(path: Any, return_tensors: bool = False, **more: Any) -> Any:
        if return_tensors:
            return load(path, return_tensors=True, **more)
        if str(path) not in known:
            known[str(path)] = load(path)
        return {
            part: {
                name: list(value) if isinstance(value, list) else value
                for name, value in values.items()
            }
            for part, values in known[str(path)].items()
        }

    return load_once


def _fast_reader(reader: type[Any]) -> type[Any]:
    """The reader over the plain array of its mapped file: hundreds of thousands of
    slices are taken of it, and each slice of a numpy.memmap looks for its file."""
    import numpy as np

    class Reader(reader):
        @property
        def data(self) -> Any:
            return self._plain

        @data.setter
        def data(self, mapped: Any) -> None:
            self._plain = np.asarray(mapped)

    return Reader
