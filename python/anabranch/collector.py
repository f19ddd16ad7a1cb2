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
        if not _resting and not gc.isenabled():
            mine = False
        else:
            mine = True
            _resting += 1
            gc.disable()
    try:
        yield
    finally:
        if mine:
            with _lock:
                _resting -= 1
                if not _resting:
                    gc.enable()
