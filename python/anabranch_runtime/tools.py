"""The command of the wheel: it starts the program in bin/ from Python's script folder."""

from __future__ import annotations

import os
import sys

from . import prefix


def run() -> None:
    """anabranch-run: runs a package from the command line."""
    program = os.path.join(prefix(), "bin", "anabranch-run")
    os.execv(program, ["anabranch-run", *sys.argv[1:]])
