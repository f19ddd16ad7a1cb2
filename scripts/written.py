"""Pages that a script writes: written anew, or with --check only compared."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def keep(page: Path, text: str) -> int:
    """The exit status of the script that `text` comes from."""
    if "--check" not in sys.argv:
        page.write_text(text)
    elif page.read_text() != text:
        script = Path(sys.argv[0]).name
        print(f"{page.relative_to(ROOT)} is old: run scripts/{script}")
        return 1
    return 0
