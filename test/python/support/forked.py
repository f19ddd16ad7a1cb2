"""Work in a forked process, so that a crash or a hang is a result."""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Callable
from typing import TextIO

ENDED = "ended by"  # how the end of a process begins that did not end by itself
STEP_SECONDS = 5


def in_child(tell: Callable[[TextIO], None], seconds: float) -> tuple[str, str]:
    """What a forked process writes into its pipe, and how it ended; empty if by itself.
    A process that writes nothing for `seconds` is ended."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        try:
            with os.fdopen(writer, "w") as pipe:
                tell(pipe)
            os._exit(0)
        finally:
            os._exit(1)
    os.close(writer)
    said, hangs = _told_by(child, reader, seconds)
    _, status = os.waitpid(child, 0)
    if hangs:
        return said, f"{ENDED} the time limit"
    if os.WIFSIGNALED(status):
        return said, f"{ENDED} {signal.Signals(os.WTERMSIG(status)).name}"
    return said, f"{ENDED} status {os.WEXITSTATUS(status)}" if status else ""


def _told_by(child: int, reader: int, seconds: float) -> tuple[str, bool]:
    """What the process writes, and whether it was ended because it hangs. Short steps
    are counted: while both processes are stopped, no time passes."""
    said, waited, hangs = b"", 0.0, False
    while not hangs:
        if not select.select([reader], [], [], STEP_SECONDS)[0]:
            waited += STEP_SECONDS
            if hangs := waited >= seconds:
                os.kill(child, signal.SIGKILL)
        elif more := os.read(reader, 1 << 16):
            said, waited = said + more, 0.0
        else:
            break
    os.close(reader)
    return said.decode(), hangs
