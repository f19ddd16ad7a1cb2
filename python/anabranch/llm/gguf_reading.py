"""transformers asks for a GGUF file again for the configuration, the tokenizer and the
weights; here the `gguf` package parses it once."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from typing import Any


@contextlib.contextmanager
def parsed_once() -> Iterator[None]:
    """Inside the block all readers of one file are the same reader, and so are all
    name maps of one architecture. What is read is the same."""
    import gguf

    before = gguf.GGUFReader, gguf.get_tensor_name_map
    gguf.GGUFReader = functools.cache(_fast_reader(before[0]))  # type: ignore
    gguf.get_tensor_name_map = functools.cache(before[1])
    try:
        yield
    finally:
        gguf.GGUFReader, gguf.get_tensor_name_map = before  # type: ignore


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
