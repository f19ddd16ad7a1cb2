"""Writes the README's table from the figures of a run: table.py [FILE]

Nothing is left out: a case that failed or lost stands in it like the others.
FILE is what `make bench` wrote, build/benchmark.json unless named.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from harness import Row
from run import COLUMNS, COMPARED, cell, ratio

ROOT = Path(__file__).resolve().parent.parent
BEGIN, END = "<!-- benchmark -->\n", "<!-- /benchmark -->\n"


def table(record: dict) -> str:
    machine = record["machine"]
    about = (
        f"`make bench` on {machine['date'][:10]}: {machine['cpu']},"
        f" {machine['cores']} CPUs, {machine['capability']},"
        f" torch {machine['torch']}. The last columns say how many times faster (or"
        " smaller) the best of ours is; under 1.00x, ours loses."
    )
    lines = [about, ""]
    ran = {row["contender"] for c in record["cases"].values() for row in c["rows"]}
    columns = [column for column in COLUMNS if column in ran]
    compared = [name for name, others in COMPARED.items() if ran & set(others)]
    heads = ["what", *columns, *(f"to {name}" for name in compared)]
    lines += ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    for case in record["cases"].values():
        rows = {row["contender"]: Row(**row) for row in case["rows"]}
        cells = [case["what"], *(cell(rows.get(column)) for column in columns)]
        cells += [ratio(rows, *COMPARED[name]) for name in compared]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main() -> int:
    given = sys.argv[1:] or [str(ROOT / "build" / "benchmark.json")]
    readme = ROOT / "README.md"
    before, rest = readme.read_text().split(BEGIN)
    after = rest.split(END)[1]
    figures = table(json.loads(Path(given[0]).read_text()))
    readme.write_text(before + BEGIN + figures + END + after)
    return 0


if __name__ == "__main__":
    sys.exit(main())
