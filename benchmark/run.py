"""Runs benchmark cases, each in a process of its own, and prints one table.

run.py                 the default cases, about ten minutes
run.py NAME ...        only these (a prefix will do), extra ones too
run.py --list          what there is
run.py --json FILE     where the figures go, beside the table
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

import torch

import compiling  # noqa: F401  each of these registers its cases
import deploying  # noqa: F401
import kernels  # noqa: F401
import models  # noqa: F401
import overhead  # noqa: F401
import products  # noqa: F401
import shapes  # noqa: F401
import starting  # noqa: F401
import streams  # noqa: F401
import supers  # noqa: F401
from harness import BOUND, CASES, KEEP_PAGES, OURS, Row
from peers import PEERS

HERE = Path(__file__).resolve().parent
COLUMNS = (
    "eager",
    "no-op backend",
    "Dynamo alone",
    "aot_eager",
    "inductor",
    *PEERS,
    *OURS,
    BOUND,
)


# What the best of ours is compared with.
COMPARED = {
    "eager": ("eager",),
    "Inductor": ("inductor",),
    "the other engines": tuple(PEERS),
}


def machine() -> dict[str, object]:
    model = "unknown CPU"
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.split(":", 1)[1].strip()
            break
    return {
        "cpu": model,
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "capability": torch.backends.cpu.get_cpu_capability(),
        "date": time.strftime("%Y-%m-%d %H:%M"),
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


def cell(row: Row | None) -> str:
    if row is None:
        return ""
    if row.error:
        return "failed"
    if row.note.startswith("absent"):
        return "absent"
    return f"{row.value:.3g} {row.unit}"


def ratio(rows: dict[str, Row], *names: str) -> str:
    """How many times faster the best of ours is than the best of `names`."""

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
    parser.add_argument("--json", default="build/benchmark.json", help="output file")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        rows = CASES[arguments.child].run()
        Path(arguments.json).write_text(json.dumps([asdict(row) for row in rows]))
        return 0
    if arguments.list:
        for case in CASES.values():
            print(f"{case.name:22} {case.describe}{' (extra)' * case.extra}")
        return 0

    record: dict = {"machine": machine(), "cases": {}}
    print(", ".join(f"{key} {value}" for key, value in record["machine"].items()))
    heads = [*COLUMNS, *(f"to {name}" for name in COMPARED), "what"]
    print("| case | " + " | ".join(heads) + " |")
    print("|---" * (len(heads) + 1) + "|")
    failed = False
    for name in choose(arguments.names):
        rows = run_apart(name)
        print_row(name, rows, CASES[name].describe)
        failed |= any(row.error for row in rows if row.contender in OURS)
        record["cases"][name] = {
            "what": CASES[name].describe,
            "rows": [asdict(row) for row in rows],
        }
        Path(arguments.json).parent.mkdir(parents=True, exist_ok=True)
        Path(arguments.json).write_text(json.dumps(record, indent=1))
    print(f"figures: {arguments.json}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
