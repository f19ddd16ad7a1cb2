"""Records what ran when: `with anabranch.profile() as trace:` gives a Trace."""

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
    """A recorded trace: every call of an executable during one `profile()`, with its
    commands."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._running = True

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the trace as JSON, for Perfetto, chrome://tracing and `anabranch
        report`. RuntimeError: the `profile()` block has not ended."""
        source = self._finished("save")
        if os.path.exists(path) and os.path.samefile(source, path):
            return
        shutil.copyfile(source, path)

    def report(self, path: str | os.PathLike[str]) -> None:
        """Writes the page that `anabranch report` makes of the trace. RuntimeError: the
        `profile()` block has not ended."""
        from .page import write_report

        write_report(self._finished("report"), path, os.path.basename(path))

    def events(self) -> list[dict[str, Any]]:
        """The slices, arrows and names of the trace, in the form of
        docs/design/trace.md. RuntimeError: the `profile()` block has not ended."""
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
    """Records the calls of all executables inside the block, from any thread.

        with anabranch.profile() as trace:
            model(x)
        trace.report("report.html")

    With `path`, the trace is also kept as a file; without it, the file is removed with
    the Trace object. If the block raises an error, the trace has what ran before.
    TypeError: `path` is no path. RuntimeError: another trace is running in this
    process.
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
    """Records from now until the process ends, for the option `trace`."""
    _C.start_trace(path)
    atexit.register(_finish_process, path, os.getpid())


def _finish_process(path: str, owner: int) -> None:
    """Ends the trace. A forked child does nothing: the trace is its parent's."""
    if os.getpid() == owner:
        _C.stop_trace()
        _tell(path)


def _tell(path: str) -> None:
    if environment().get("explain"):
        say(f"what ran is in {path}; see it with: anabranch report {path}")
