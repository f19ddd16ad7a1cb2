"""Has Python look for garbage less often while a frame is compiled.

A trace makes hundreds of thousands of objects that live as long as it. Python walks the
young ones each time that 700 were made, and all objects of the process now and then: a
tenth of the time of a compilation, for little garbage."""

from __future__ import annotations

import contextlib
import gc
import threading
from collections.abc import Iterator

# Objects that are made between two collections: some MiB of them.
_OBJECTS = 20_000

_lock = threading.Lock()
_inside = 0
_before = (0, 0, 0)


@contextlib.contextmanager
def rare() -> Iterator[None]:
    """Threads may be inside at the same time. A caller that switched collections off, or
    sets another threshold meanwhile, keeps what it chose."""
    _enter()
    try:
        yield
    finally:
        _leave()


def _enter() -> None:
    global _inside, _before
    with _lock:
        _inside += 1
        if _inside == 1:
            _before = gc.get_threshold()
            if 0 < _before[0] < _OBJECTS:
                gc.set_threshold(_OBJECTS, *_before[1:])


def _leave() -> None:
    global _inside
    with _lock:
        _inside -= 1
        if not _inside and gc.get_threshold() == (_OBJECTS, *_before[1:]):
            gc.set_threshold(*_before)
