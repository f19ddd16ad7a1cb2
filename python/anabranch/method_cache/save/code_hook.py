"""Shows the code that Dynamo makes of each function, while it compiles."""

from __future__ import annotations

import contextlib
import types
from collections.abc import Callable, Iterator

from ... import dynamo_lock


@contextlib.contextmanager
def translations(
    seen: Callable[[types.CodeType, types.CodeType], None],
) -> Iterator[None]:
    """Inside the block, calls `seen` with each code that Dynamo reads and the code that
    it makes of it."""
    from torch._dynamo.convert_frame import register_bytecode_hook

    # Dynamo walks over its hooks while it compiles.
    with dynamo_lock.held():
        handle = register_bytecode_hook(seen)
    try:
        yield
    finally:
        with dynamo_lock.held():
            handle.remove()
