"""Writes the page of names that torch_npu and torch.npu have beside operators and streams.
--check only compares."""

from __future__ import annotations

import itertools
import sys

from written import ROOT, keep

sys.path[:0] = [str(ROOT / "torchair-compat"), str(ROOT / "python")]

from torchair._impl.surface.table import NOTHING, REFUSED, ROWS, WORKS

PAGE = ROOT / "torchair-compat" / "NAMES.md"
HERE = {
    WORKS: "works",
    NOTHING: "no effect, said once",
    REFUSED: "refused: NotImplementedError",
}
HEAD = """\
# Names of torch_npu and torch.npu

What do the names do that public code uses beside [operators](OPERATORS.md), streams, events and graphs?
`scripts/npu_names.py` writes this page from `torchair/_impl/surface/table.py`, and a test holds the packages
to it. A name that is on neither page is an AttributeError, which names what there is like it.

| names | here | what |
|---|---|---|
"""


def page() -> str:
    lines = []
    rows = [(r.name.rpartition("."), HERE[r.kind], r.text) for r in ROWS]
    for (home, here, text), group in itertools.groupby(
        rows, lambda row: (row[0][0], row[1], row[2])
    ):
        names = ", ".join(f"`{home}.{name[2]}`" for name, _, _ in group)
        lines.append(f"| {names} | {here} | {text} |\n")
    return HEAD + "".join(lines)


if __name__ == "__main__":
    sys.exit(keep(PAGE, page()))
