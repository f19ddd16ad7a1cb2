"""Runs benchmark cases, each in a process of its own, and prints one table.

run.py                 the default cases, about ten minutes
run.py NAME ...        only these (a prefix will do), extra ones too
run.py --list          what there is
run.py --json FILE     where the record goes, benchmark/runs/<date>.json without it

`results.py keep` puts a record among the figures that the pages show.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

import architectures  # noqa: F401  each of these registers its cases
import compiling  # noqa: F401
import deploying  # noqa: F401
import kernels  # noqa: F401
import models  # noqa: F401
import overhead  # noqa: F401
import products  # noqa: F401
import quantised_models.pt2e
import quantised_models.rounded_rows  # noqa: F401
import regions.programs  # noqa: F401
import serving.embedding  # noqa: F401
import shapes  # noqa: F401
import starting  # noqa: F401
import streams  # noqa: F401
import supers  # noqa: F401
import workloads  # noqa: F401
from harness import BOUND, CASES, KEEP_PAGES, OURS
from peers import PEERS
from record import Row, add_case, cell, new_record, path_of, write

HERE = Path(__file__).resolve().parent
COLUMNS = (
    "eager",
    "no-op backend",
    "Dynamo alone",
    "aot_eager",
    "inductor",
    "inductor max",
    *PEERS,
    *OURS,
    BOUND,
)


# The best of ours is compared with these.
COMPARED = {
    "eager": ("eager",),
    "Inductor": ("inductor", "inductor max"),
    "the other engines": tuple(PEERS),
}


def run_apart(name: str) -> list[Row]:
    """The case in its own process: its threads and caches are its own."""
    with tempfile.NamedTemporaryFile(suffix=".json") as out:
        done = subprocess.run(
            [sys.executable, str(HERE / "run.py"), "--child", name, "--json", out.name],
            env=os.environ | KEEP_PAGES,
            capture_output=True,
            text=True,
            check=False,
        )
        written = Path(out.name).read_text()
    if done.returncode or not written:
        tail = done.stderr.strip().rsplit("\n", 1)[-1]
        return [Row("anabranch", error=f"process ended: {done.returncode} {tail}")]
    return [Row(**row) for row in json.loads(written)]


def ratio(rows: dict[str, Row], *names: str) -> str:
    """How many times faster the best contender of Anabranch is than the best of
    `names`."""

    def best(names: Iterable[str]) -> float:
        found = [rows[n].value for n in names if n in rows and not rows[n].error]
        return min(filter(None, found), default=0.0)

    ours, theirs = best(OURS), best(names)
    return f"{theirs / ours:.2f}x" if ours and theirs else ""


def print_row(name: str, values: list[Row], describe: str) -> None:
    rows = {row.contender: row for row in values}
    cells = [cell(rows.get(column)) for column in COLUMNS]
    cells += [ratio(rows, *others) for others in COMPARED.values()]
    print(f"| {name} | " + " | ".join(cells) + f" | {describe} |", flush=True)
    for row in values:
        if row.error or row.note:
            print(f"    {name}, {row.contender}: {row.error or row.note}", flush=True)


def choose(names: list[str]) -> list[str]:
    if not names:
        return [name for name, case in CASES.items() if not case.extra]
    chosen = [
        name
        for name in CASES
        if name in names
        or any(name.startswith(part) and part not in CASES for part in names)
    ]
    if not chosen:
        sys.exit(f"no such case; there are: {', '.join(CASES)}")
    return chosen


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", help="cases, or their first letters")
    parser.add_argument("--list", action="store_true", help="name the cases")
    parser.add_argument("--json", type=Path, help="file of the record")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        rows = CASES[arguments.child].run()
        arguments.json.write_text(json.dumps([asdict(row) for row in rows]))
        return 0
    if arguments.list:
        for case in CASES.values():
            print(f"{case.name:22} {case.describe}{' (extra)' * case.extra}")
        return 0

    record = new_record()
    path = arguments.json or path_of(record)
    about = {**record["machine"], **record["run"]}
    print(", ".join(f"{key} {value}" for key, value in about.items()))
    heads = [*COLUMNS, *(f"to {name}" for name in COMPARED), "what"]
    print("| case | " + " | ".join(heads) + " |")
    print("|---" * (len(heads) + 1) + "|")
    failed = False
    for name in choose(arguments.names):
        rows = run_apart(name)
        print_row(name, rows, CASES[name].describe)
        failed |= any(row.error for row in rows if row.contender in OURS)
        add_case(record, name, CASES[name].describe, rows)
        write(record, path)
    print(f"record: {path}; `benchmark/results.py keep {path}` keeps its figures")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
