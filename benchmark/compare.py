"""Says what became slower between two records.

compare.py OLD.json NEW.json    exit status 2 if anything did

On one machine it compares times; on two, the distance of each kernel from the limit."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from record import Row, cell, read

# On a quiet machine, the turns of a contender differ by less.
TOLERANCE = 0.05
# Names of Anabranch's contenders begin so.
PEERS = ("eager", "inductor", "openvino", "onnxruntime", "aot_eager", "no-op", "Dynamo")
BOUND = "bound"


def times(case: Mapping[str, Any], relative: bool) -> dict[str, Row]:
    """The figures of Anabranch's contenders; with `relative`, in units of the limit."""
    rows = {row["contender"]: Row(**row) for row in case["rows"]}
    limit = rows.pop(BOUND, None)
    ours = {n: r for n, r in rows.items() if not n.startswith(PEERS)}
    if not relative:
        return ours
    if limit is None:
        return {}
    for row in ours.values():
        row.value, row.unit = row.value / limit.value, "limits"
    return ours


def report(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    """Prints a table. Returns whether anything became slower or fails now."""
    relative = old["machine"] != new["machine"]
    if relative:
        print(f"another machine, so limits are compared: {old['machine']}")
    print(
        "| case | contender | before | now | now / before | |\n|---|---|---|---|---|---|"
    )
    worse = False
    for name, case in new["cases"].items():
        if name not in old["cases"]:
            print(f"| {name} | | | | | new |")
            continue
        before = times(old["cases"][name], relative)
        for contender, row in times(case, relative).items():
            if contender not in before or not before[contender].value:
                continue
            was = before[contender]
            slower = not row.value or row.value > was.value * (1 + TOLERANCE)
            worse |= slower
            ratio = f"{row.value / was.value:.2f}" if row.value else ""
            mark = "SLOWER" if slower else ""
            print(
                f"| {name} | {contender} | {cell(was)} | {cell(row)} | {ratio} | {mark} |"
            )
    for name in old["cases"]:
        if name not in new["cases"]:
            print(f"| {name} | | | | | not measured |")
    return worse


def load(path: Path) -> dict:
    """A record of `run.py` or `kernel_table.py`. Ends the program if the file has none."""
    try:
        found = read(path)
        for case in found["cases"].values():
            times(case, False)
        dict(found["machine"])
        return found
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        sys.exit(f"{path} is no record of a benchmark: {error!r}")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    given = parser.parse_args()
    return 2 if report(load(given.old), load(given.new)) else 0


if __name__ == "__main__":
    sys.exit(main())
