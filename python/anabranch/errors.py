"""The errors that a user of the compiler meets."""

from __future__ import annotations

from torch._dynamo.exc import ShortenTraceback


class CompileError(ShortenTraceback):
    """The graph asks for something impossible; the message names the user's line.

    Dynamo wraps errors of a backend into one of its own, except for errors of the class
    that this one derives from.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message, first_useful_frame=None)


class FrozenWeightError(RuntimeError):
    """A frozen weight changed, and the program cannot use the new values: either
    `freeze="strict"` forbids it, or the weight was freed or has other sizes."""


class MemoryLimitError(CompileError, MemoryError):
    """The weights of a program do not fit under the memory limit."""


class OptionError(CompileError, ValueError):
    """An option or a mode that does not exist, or a wrong value of one."""


class SavedGraphError(RuntimeError):
    """A graph that PyTorch saved cannot run here, or a graph cannot be saved."""
