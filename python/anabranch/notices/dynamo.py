"""Where Dynamo broke the model's graph, and what its guards cost in each call.

Dynamo's own records are read while a frame that it compiled runs: the frame's locals
are the values that the guards of the frame look at."""

from __future__ import annotations

import sys
import time
from types import CodeType, FrameType
from typing import Any

from torch._dynamo import utils as dynamo
from torch._dynamo.eval_frame import _debug_get_cache_entry_list

from ..location import is_hidden

GUARD_RUNS = 20


def graph_breaks(frame: FrameType) -> list[dict[str, str]]:
    """The places where Dynamo broke the graph of a frame's function, each once, in
    order: the user's line, and the reason in one line."""
    code = frame.f_code
    # The code after a break has the lines of the whole function.
    lines = {line for _, _, line in dynamo.orig_code_map[code].co_lines()}
    found: dict[str, dict[str, str]] = {}
    for entry in dynamo.graph_break_reasons:
        outer = entry.user_stack[0] if entry.user_stack else None
        if outer and outer.filename == code.co_filename and outer.lineno in lines:
            users = [f for f in entry.user_stack if not is_hidden(f.filename)] or [
                outer
            ]
            line = f"{users[-1].filename}:{users[-1].lineno}"
            text = filter(None, map(str.strip, entry.reason.splitlines()))
            found.setdefault(line, {"line": line, "reason": next(text, "")})
    return list(found.values())


def compiled_frame() -> FrameType | None:
    """The innermost frame of this thread that runs code made by Dynamo."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code not in dynamo.orig_code_map:
        frame = frame.f_back
    return frame


def guard_seconds(frame: FrameType) -> float:
    """How long the guards of a frame take that Dynamo's code runs in. Zero: unknown, as
    Dynamo's code has changed a value that they look at."""
    original: CodeType = dynamo.orig_code_map[frame.f_code]
    values: dict[str, Any] = dict(frame.f_locals)
    seconds = 0.0
    for entry in _debug_get_cache_entry_list(original):
        holds, took = _check(entry.guard_manager.root, values)
        # Dynamo tries the entries in this order until the guards of one hold.
        seconds += took
        if entry.code is frame.f_code:
            return seconds if holds else 0.0
    return 0.0


def _check(guards: Any, values: dict[str, Any]) -> tuple[bool, float]:
    """Whether guards hold, and how many seconds a warm check of them takes."""
    times = []
    for _ in range(GUARD_RUNS):
        begin = time.perf_counter()
        holds = guards.check(values)
        times.append(time.perf_counter() - begin)
    return holds, min(times)
