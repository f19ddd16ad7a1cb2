"""Writes the table of options in torchair-compat/README.md. --check only compares."""

from __future__ import annotations

import itertools
import sys

from written import ROOT, keep

PAGE = ROOT / "torchair-compat" / "README.md"
HEAD = "| option of CompilerConfig | takes | default | class | here |\n|---|---|---|---|---|\n"
SAYS = {
    "works": "{}",
    "same": "accepted: {}",
    "none": "accepted, no effect ({})",
    "missing": "accepted, not supported yet ({})",
}


def table() -> str:
    sys.path[:0] = [str(ROOT / "python"), str(ROOT / "torchair-compat")]
    from torchair._impl.options.table import ROWS

    lines = [
        f"| `{row.path}` | {row.kind.describe()} | `{row.default!r}` | {row.grade}"
        f" | {SAYS[row.status].format(row.here)} |\n"
        for row in ROWS
    ]
    return HEAD + "".join(lines)


def page() -> str:
    """The page with the table that the code gives."""
    before, _, rest = PAGE.read_text().partition(HEAD)
    lines = rest.splitlines(keepends=True)
    after = itertools.dropwhile(lambda line: line.startswith("|"), lines)
    return f"{before}{table()}{''.join(after)}"


if __name__ == "__main__":
    sys.exit(keep(PAGE, page()))
