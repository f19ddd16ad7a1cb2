"""Keeps Python's cyclic garbage collector off while a trace makes objects that stay.

A trace makes millions of objects that live until it ends. Each full collection would
walk all of them."""

from __future__ import annotations

import contextlib
import gc
import threading
from collections.abc import Iterator

_lock = threading.Lock()
_resting = 0


@contextlib.contextmanager
def at_rest() -> Iterator[None]:
    """Turns the collector off for the block, in all threads of the process. Blocks may
    be nested and may overlap in time. A collector that was off before stays off."""
    global _resting
    with _lock:
        was_on = _resting > 0 or gc.isenabled()
        _resting += was_on
        gc.disable()
    try:
        yield
    finally:
        with _lock:
            _resting -= was_on
            if was_on and not _resting:
                gc.enable()
