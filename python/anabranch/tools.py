"""The command anabranch-opt of an installed wheel: it starts the program in bin/."""

from __future__ import annotations

import os
import sys


def opt() -> None:
    """Runs any phase or pass of the compiler on text."""
    folder = os.path.dirname(os.path.abspath(__file__))
    # In a checkout the program is in the build folder.
    for place in (folder, os.path.join(folder, "..", "..", "build")):
        program = os.path.join(place, "bin", "anabranch-opt")
        if os.path.exists(program):
            os.execv(program, ["anabranch-opt", *sys.argv[1:]])
    sys.exit("anabranch-opt is not built: `ninja -C build anabranch-opt`")
