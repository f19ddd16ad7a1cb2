"""Writes the table in torchair-compat/README.md from the code's; --check only
compares."""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "torchair-compat" / "README.md"
HEAD = "| option of CompilerConfig | takes | default | class | here |\n|---|---|---|---|---|\n"
SAYS = {
    "works": "{}",
    "none": "accepted, no effect ({})",
    "missing": "accepted, not supported yet ({})",
}


def table() -> str:
    sys.path[:0] = [str(ROOT / "python"), str(ROOT / "torchair-compat")]
    from torchair.configs._table import ROWS

    lines = [
        f"| `{row.path}` | {row.kind.describe()} | `{row.default!r}` | {row.grade}"
        f" | {SAYS[row.status].format(row.here)} |\n"
        for row in ROWS
    ]
    return HEAD + "".join(lines)


def page() -> str:
    """The page with the table as it should be."""
    before, _, rest = PAGE.read_text().partition(HEAD)
    lines = rest.splitlines(keepends=True)
    after = itertools.dropwhile(lambda line: line.startswith("|"), lines)
    return f"{before}{table()}{''.join(after)}"


def main() -> int:
    text = page()
    if "--check" in sys.argv:
        if PAGE.read_text() != text:
            print("torchair-compat/README.md is old: run scripts/options.py")
            return 1
        return 0
    PAGE.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
