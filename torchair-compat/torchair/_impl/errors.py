"""Exceptions with TorchAir's error line, and warnings that appear once a process."""

from __future__ import annotations

import contextlib
import os
import time
import traceback
import warnings
from collections.abc import Iterator

from anabranch import CompileError


class UnsupportedOption(CompileError, ValueError):
    """Options contradict each other, or do not fit this graph."""


class UnsupportedMode(CompileError, NotImplementedError):
    """The operator cannot be used in this mode."""


class ScopeError(CompileError):
    """A scope is closed without being open, or is never closed."""


_warned: set[str] = set()


def wrapped(error: Exception) -> Exception:
    """An exception of the same type whose text ends with TorchAir's error line. The
    exception itself, if its type cannot be made from one string."""
    text = str(error)
    if "ERR03005" in text:
        return error
    trace = "".join(traceback.format_exception(error))
    now = time.strftime("%Y-%m-%d-%H:%M:%S")
    line = (
        f"[ERROR] {now} (PID:{os.getpid()}, Device:-1, RankID:-1)"
        " ERR03005 GRAPH internal error"
    )
    full = f"{text}\n{trace}\n{line}"
    try:
        made = type(error)(full)
    except Exception:  # noqa: BLE001 - the type's constructor may raise anything
        return error
    return made if full in str(made) else error


@contextlib.contextmanager
def wrapping() -> Iterator[None]:
    """Adds TorchAir's error line to exceptions that leave the block."""
    try:
        yield
    except Exception as error:
        made = wrapped(error)
        if made is error:
            raise
        raise made from error


def warn_once(
    text: str, category: type[Warning] = UserWarning, stacklevel: int = 2
) -> None:
    if text not in _warned:
        _warned.add(text)
        warnings.warn(text, category, stacklevel=stacklevel + 1)


def reset_warnings() -> None:
    """Forgets which warnings have appeared, so that each may appear again."""
    _warned.clear()
