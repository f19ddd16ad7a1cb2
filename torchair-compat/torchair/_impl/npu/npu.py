"""torch.npu: one device, whose work is done when a call returns.

Streams and events are therefore objects without effect; an event made with
`enable_timing` measures.
"""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Iterator
from typing import Any

import torch

from .alias import host_device

__all__ = [
    "Event",
    "Stream",
    "current_device",
    "current_stream",
    "default_stream",
    "device_count",
    "empty_cache",
    "get_device_name",
    "get_stream_limit",
    "graph_pool_handle",
    "is_available",
    "manual_seed",
    "manual_seed_all",
    "reset_stream_limit",
    "set_device",
    "set_stream",
    "set_stream_limit",
    "stream",
    "synchronize",
]


class Event:
    """A point in the order of a stream."""

    def __init__(self, enable_timing: bool = False, **_: Any) -> None:
        self.enable_timing = enable_timing
        self._at: float | None = None

    def record(self, stream: Stream | None = None) -> None:
        self._at = time.perf_counter()

    def wait(self, stream: Stream | None = None) -> None:
        """Whatever comes before is done."""

    def synchronize(self) -> None:
        """Whatever comes before is done."""

    def query(self) -> bool:
        return True

    def elapsed_time(self, end_event: Event) -> float:
        """Milliseconds from this event to the other."""
        if not (self.enable_timing and end_event.enable_timing):
            raise ValueError("both events need enable_timing=True")
        if self._at is None or end_event._at is None:
            raise RuntimeError("both events must have been recorded")
        return (end_event._at - self._at) * 1000


class Stream:
    """An order of work that is always done."""

    def __init__(self, device: Any = None, priority: int = 0, **_: Any) -> None:
        self.device = host_device(device)
        self.priority = priority
        self._limit: dict[str, int] | None = None

    def synchronize(self) -> None:
        """Whatever it was given is done."""

    def query(self) -> bool:
        return True

    def wait_stream(self, stream: Stream) -> None:
        """What the other was given is done."""

    def wait_event(self, event: Event) -> None:
        event.wait(self)

    def record_event(self, event: Event | None = None) -> Event:
        event = event or Event()
        event.record(self)
        return event


_pools = itertools.count(1)
_default = Stream()
_current = _default


def is_available() -> bool:
    return True


def graph_pool_handle() -> tuple[int, int]:
    """A handle for `use_custom_pool`. Nothing is captured here, so no memory is behind
    it."""
    return (0, next(_pools))


def device_count() -> int:
    return 1


def current_device() -> int:
    return 0


def set_device(device: Any) -> None:
    host_device(device)


def get_device_name(device: Any = None) -> str:
    return f"{host_device(device)}, standing in for an NPU"


def synchronize(device: Any = None) -> None:
    host_device(device)


def empty_cache() -> None:
    """The host's allocator keeps nothing back."""


def manual_seed(seed: int) -> None:
    torch.manual_seed(seed)


def manual_seed_all(seed: int) -> None:
    torch.manual_seed(seed)


def default_stream(device: Any = None) -> Stream:
    host_device(device)
    return _default


def current_stream(device: Any = None) -> Stream:
    host_device(device)
    return _current


def set_stream(stream: Stream | None) -> None:
    global _current
    if stream is not None:
        _current = stream


@contextlib.contextmanager
def stream(stream: Stream | None) -> Iterator[None]:
    before = _current
    set_stream(stream)
    try:
        yield
    finally:
        set_stream(before)


def get_stream_limit(stream: Stream) -> dict[str, int]:
    if stream._limit is None:
        threads = torch.get_num_threads()
        return {"cube_core_num": threads, "vector_core_num": threads}
    return dict(stream._limit)


def set_stream_limit(stream: Stream, cube_num: int = -1, vector_num: int = -1) -> None:
    """Stores the limit for get_stream_limit; it limits nothing."""
    limit = get_stream_limit(stream)
    if cube_num != -1:
        limit["cube_core_num"] = cube_num
    if vector_num != -1:
        limit["vector_core_num"] = vector_num
    stream._limit = limit


def reset_stream_limit(stream: Stream) -> None:
    stream._limit = None
