"""Makes a graph break inside a scope an error.

Dynamo would run the function with the break without compiling it, and the scope would
have no effect."""

from __future__ import annotations

import contextlib
import dataclasses
import sys
import threading
import traceback
from collections.abc import Iterator
from typing import Any

import torch
from torch._dynamo import assume_constant_result
from torch._dynamo.callback import callback_handler
from torch._dynamo.exc import Unsupported, UserError
from torch._guards import TracingContext

_Stack = list[traceback.FrameSummary]


@dataclasses.dataclass(frozen=True)
class _Open:
    """A scope that the trace has entered, and the frames that entered it."""

    what: str
    stack: _Stack


class _Trace(threading.local):
    """The open scopes of this thread's trace. Dynamo may give a trace up and start
    again, so some of them may belong to a trace that was given up."""

    def __init__(self) -> None:
        self.of: Any = None
        self.open: list[_Open] = []


_trace = _Trace()


@contextlib.contextmanager
def unbroken(what: str) -> Iterator[None]:
    """Under Dynamo, makes a graph break inside the block raise
    torch._dynamo.exc.Unsupported. The message names `what`, the line that entered the
    scope and the line that breaks the graph. Eager code is not affected."""
    if not torch.compiler.is_dynamo_compiling():
        yield
        return
    depth = _enter(what)
    try:
        with torch._dynamo.error_on_graph_break(True):
            yield
    finally:
        _leave(depth)


@assume_constant_result  # Dynamo calls this function while it traces.
def _enter(what: str) -> int:
    context = TracingContext.try_get()
    if context is not _trace.of:
        _trace.of, _trace.open = context, []
    _trace.open.append(_Open(what, list(TracingContext.extract_stack())))
    # torch._dynamo.reset() removes callbacks, so each trace registers again.
    if _explain not in callback_handler.end_callbacks:
        callback_handler.register_end_callback(_explain)
    return len(_trace.open) - 1


@assume_constant_result
def _leave(depth: int) -> None:
    del _trace.open[depth:]


def _explain(_arguments: Any) -> None:
    """Puts the lines in front of the message of Dynamo's exception. Dynamo calls this
    function after it has compiled a frame or has failed to."""
    error = sys.exc_info()[1]
    opened, _trace.of, _trace.open = _trace.open, None, []
    if not isinstance(error, Unsupported | UserError):
        return
    broken = list(getattr(error, "real_stack", None) or ())
    for scope in reversed(opened):
        entered = _frame_of(scope, broken)
        if entered is not None:
            text = (
                f"the graph breaks inside of {scope.what}, which must lie in one graph;"
                " take what breaks it out of the scope"
                f"\n  scope: {_line(entered)}\n  break: {_line(broken[-1])}"
            )
            error.args = (f"{text}\n\n{error}", *error.args[1:])
            return


def _frame_of(scope: _Open, broken: _Stack) -> traceback.FrameSummary | None:
    """The innermost frame that entered the scope and still runs where the graph breaks.
    None: the scope belongs to a trace that was given up."""
    found = None
    for ours, theirs in zip(scope.stack, broken):
        if (ours.filename, ours.name) != (theirs.filename, theirs.name):
            break
        found = ours
        if ours.lineno != theirs.lineno:
            break
    return found


def _line(frame: traceback.FrameSummary) -> str:
    return f"{frame.filename}:{frame.lineno}, in {frame.name}: {frame.line}"
