"""What ran when: `with anabranch.profile() as trace:`, and the trace it leaves."""

from __future__ import annotations

import atexit
import contextlib
import functools
import json
import os
import shutil
import tempfile
import weakref
from collections.abc import Iterator
from typing import Any

from .. import _C
from ..config import environment
from ..report import say


class Trace:
    """Every call of an executable during one `profile()`, and every command in it."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._running = True

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes JSON for Perfetto, chrome://tracing and `anabranch report`."""
        source = self._finished("save")
        if os.path.exists(path) and os.path.samefile(source, path):
            return
        shutil.copyfile(source, path)

    def report(self, path: str | os.PathLike[str]) -> None:
        """Writes the page that `anabranch report` makes."""
        from .page import write_report

        write_report(self._finished("report"), path, os.path.basename(path))

    def events(self) -> list[dict[str, Any]]:
        """Slices, arrows and names, in the form that docs/design/trace.md gives."""
        with open(self._finished("events"), encoding="utf-8") as file:
            return json.load(file)["traceEvents"]

    def _finished(self, asked: str) -> str:
        if self._running:
            raise RuntimeError(
                f"the trace still runs: call {asked}() after the `with` block"
            )
        return self._path


@contextlib.contextmanager
def profile(path: str | os.PathLike[str] | None = None) -> Iterator[Trace]:
    """Records the calls of all executables, from any thread.

        with anabranch.profile() as trace:
            model(x)
        trace.report("report.html")

    With `path` the trace is also a file there; without, it is gone with the
    `Trace`. One trace runs at a time in a process, and what raises inside the
    block is in the trace as far as it came.
    """
    if path is not None and not isinstance(path, str | os.PathLike):
        raise TypeError(f"path must be a path, got {path!r}")
    folder = tempfile.mkdtemp(prefix="anabranch-trace-") if path is None else None
    target = os.fspath(path) if path else os.path.join(folder or "", "trace.json")
    trace = Trace(target)
    if folder is not None:
        weakref.finalize(trace, shutil.rmtree, folder, ignore_errors=True)
    _C.start_trace(target)
    try:
        yield trace
    finally:
        _C.stop_trace()
        trace._running = False
        if path is not None:
            _tell(target)


@functools.cache
def trace_process(path: str) -> None:
    """Records from now to the end of the process: the option `trace`."""
    _C.start_trace(path)
    atexit.register(_finish_process, path, os.getpid())


def _finish_process(path: str, owner: int) -> None:
    """Not in a forked child: the trace is its parent's."""
    if os.getpid() == owner:
        _C.stop_trace()
        _tell(path)


def _tell(path: str) -> None:
    if environment().get("explain"):
        say(f"what ran is in {path}; see it with: anabranch report {path}")
