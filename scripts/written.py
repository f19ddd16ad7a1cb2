"""Writes pages that a script generates; with --check it only compares."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def keep(page: Path, text: str) -> int:
    """Writes the page, or compares it. Returns the exit status of the script that calls
    it."""
    if "--check" not in sys.argv:
        page.write_text(text)
    elif page.read_text() != text:
        script = Path(sys.argv[0]).name
        print(f"{page.relative_to(ROOT)} is old: run scripts/{script}")
        return 1
    return 0
