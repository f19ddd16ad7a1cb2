"""transformers asks for a GGUF file again for the configuration, the tokenizer and the
weights; here the `gguf` package parses it once."""

from __future__ import annotations

import contextlib
import functools
import struct
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
    """The reader over the plain array of its mapped file, since each slice of a
    numpy.memmap looks for its file. An array of a vocabulary's strings and scores is
    cut up at once, into views of memory."""
    import numpy as np
    from gguf import GGUFValueType

    class Reader(reader):
        def _get_field_parts(self, begin: int, raw_type: int) -> Any:
            if GGUFValueType(raw_type) != GGUFValueType.ARRAY or self.byte_order != "I":
                return super()._get_field_parts(begin, raw_type)
            kind = GGUFValueType(int(self._get(begin, np.uint32)[0]))
            head = [self._get(begin, np.uint32), self._get(begin + 4, np.uint64)]
            count, items = int(head[1][0]), begin + 12
            types = [GGUFValueType.ARRAY] + [kind] * (count > 0)
            if kind == GGUFValueType.STRING:
                end, parts = _strings(memoryview(self.data), items, count)
                texts = range(len(head) + 1, len(head) + len(parts), 2)
                return end - begin, head + parts, list(texts), types
            scalar = self.gguf_scalar_to_np.get(kind)
            if scalar is None:
                return super()._get_field_parts(begin, raw_type)
            values = self._get(items, scalar, count)
            places = range(len(head), len(head) + count)
            size = items - begin + values.nbytes
            return size, head + list(values.reshape(-1, 1)), list(places), types

        @property
        def data(self) -> Any:
            return self._plain

        @data.setter
        def data(self, mapped: Any) -> None:
            self._plain = np.asarray(mapped)

    return Reader


def _strings(data: memoryview, at: int, count: int) -> tuple[int, list[memoryview]]:
    """Where strings that begin at `at` end, and of each its length and its bytes."""
    read, parts = struct.Struct("<Q").unpack_from, []
    for _ in range(count):
        begin = at + 8
        end = begin + read(data, at)[0]
        if end > len(data):
            raise ValueError("the file ends inside of a string")
        parts.append(data[at:begin])
        parts.append(data[begin:end])
        at = end
    return at, parts
