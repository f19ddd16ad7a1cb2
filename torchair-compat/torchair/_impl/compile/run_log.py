"""Logs each run of a graph."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from ..log import EVENT_LEVEL, logger

__all__ = ["reporting"]

Compiled = Callable[..., Any]


def reporting(executable: Compiled, compile_seconds: float) -> Compiled:
    """Wraps the executable: a run is a line in the log while the logger shows events.
    Its time includes the processing of inputs."""
    pending = [compile_seconds]

    def call(arguments: list[Any]) -> Any:
        if not logger.isEnabledFor(EVENT_LEVEL):
            return executable(arguments)
        start = time.perf_counter()
        results = executable(arguments)
        ran = time.perf_counter() - start
        compiled = pending.pop() if pending else 0.0
        logger.event(
            "torchair run at %s, process input: 0us, compile %dus, graph run: %dus",
            time.strftime("%Y-%m-%d %H:%M:%S"),
            compiled * 1e6,
            ran * 1e6,
        )
        return results

    call._boxed_call = True  # type: ignore[attr-defined]
    return call
