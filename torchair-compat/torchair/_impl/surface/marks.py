"""torch.npu.mstx: ranges of a profile, which PyTorch's profiler shows."""

from __future__ import annotations

import itertools
from typing import Any

from torch.profiler import record_function

_numbers = itertools.count(1)
_open: dict[int, record_function] = {}
_stack: list[record_function] = []


def mark(message: str = "None", stream: Any = None, domain: str = "default") -> None:
    """A point in the profile: a range that ends at once."""
    with record_function(message):
        pass


def range_start(message: str, stream: Any = None, domain: str = "default") -> int:
    """Begins a range. Returns the number that ends it."""
    number = next(_numbers)
    _open[number] = record_function(message)
    _open[number].__enter__()
    return number


def range_end(range_id: int, domain: str = "default") -> None:
    """Ends a range. Numbers of no range are left alone, as an NPU does."""
    if found := _open.pop(range_id, None):
        found.__exit__(None, None, None)


def range_push(message: str, stream: Any = None, domain: str = "default") -> int:
    _stack.append(record_function(message))
    _stack[-1].__enter__()
    return len(_stack) - 1


def range_pop(domain: str = "default") -> int:
    if not _stack:
        return -1
    _stack.pop().__exit__(None, None, None)
    return len(_stack)


class mstx_range(record_function):
    """A range as a context or a decorator."""

    def __init__(
        self, message: str, stream: Any = None, domain: str = "default"
    ) -> None:
        super().__init__(message)
