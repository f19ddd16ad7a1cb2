"""The errors that a user of torch.compile sees."""

from __future__ import annotations

from torch._dynamo.exc import ShortenTraceback


class CompileError(ShortenTraceback):
    """The graph asks for something impossible; the message names the line.

    Dynamo wraps what a backend raises into an error of its own, except for
    errors of the class that this one derives from."""

    def __init__(self, message: str) -> None:
        super().__init__(message, first_useful_frame=None)


class FrozenWeightError(RuntimeError):
    """A frozen weight changed, and the program can't follow: `freeze="strict"` says
    so, or the weight is gone or has other sizes."""


class MemoryLimitError(CompileError, MemoryError):
    """The memory limit has no room for the program's weights."""


class OptionError(CompileError, ValueError):
    """An option or a mode of torch.compile that Anabranch does not know."""
