"""Lets one thread of the process trace at a time.

PyTorch keeps what a trace changes for a while in globals: kernels of composite
operators, annotations of nodes, hooks on bytecode. Dynamo holds its lock while it
compiles, so that each thread restores what it found."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator


class _Thread(threading.local):
    holders = 0  # blocks of this thread that hold the lock


_thread = _Thread()


def is_held() -> bool:
    """Whether this thread holds the lock for this package. The trace that runs then is
    one for this package's compiler."""
    return _thread.holders > 0


@contextlib.contextmanager
def held() -> Iterator[None]:
    """Holds Dynamo's lock inside the block or the decorated function, which may be
    within another one of the same thread."""
    # Importing Dynamo takes seconds, and not every process traces.
    from torch._dynamo.convert_frame import compile_lock

    with compile_lock:
        _thread.holders += 1
        try:
            yield
        finally:
            _thread.holders -= 1
