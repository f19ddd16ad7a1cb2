"""Makes transformers parse a GGUF file once.

transformers opens the file for the configuration, again for the tokenizer and again for
the weights."""

from __future__ import annotations

import contextlib
import functools
import struct
from collections.abc import Callable, Iterator
from typing import Any


@contextlib.contextmanager
def parsed_once() -> Iterator[None]:
    """Inside the block, all readers of a file are one object. So are all name maps of
    one architecture and the values of a file's fields. Nothing that is read changes."""
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
    """Wraps `load_gguf_checkpoint`, which converts all fields to Python values at each
    call, with a list for each item of the vocabulary. Each caller gets containers of
    its own."""
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
    """The reader with two changes. It reads a plain array of the mapped file, since
    each slice of a numpy.memmap looks up its file. It cuts an array of a vocabulary at
    once, into views of memory."""
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
    """For strings that begin at `at`: where they end, and the length and the bytes of
    each."""
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
