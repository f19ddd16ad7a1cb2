"""Python's cyclic garbage collector, at rest while much is made that stays.

A trace makes millions of objects that live until it ends, and each full collection
walks all of them: a quarter of the time of a trace."""

from __future__ import annotations

import contextlib
import gc
import threading
from collections.abc import Iterator

_lock = threading.Lock()
_resting = 0


@contextlib.contextmanager
def at_rest() -> Iterator[None]:
    """Nothing is collected inside of the block, in any thread. Blocks may be nested
    and overlap; a collector that was off before stays off."""
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
