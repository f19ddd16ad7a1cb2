"""The record of a run: the machine, the date, and a row for each contender.

Reading a record needs no torch; `new_record` alone asks torch for its version."""

from __future__ import annotations

import json
import os
import platform
import re
import time
from dataclasses import asdict, dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
# Records of runs. Git ignores this folder; `results.py keep` keeps a record.
RUNS = HERE / "runs"


@dataclass
class Row:
    """The figure of one contender. `error` says why there is none."""

    contender: str
    value: float = 0.0
    unit: str = ""
    low: float = 0.0
    high: float = 0.0
    difference: float | None = None
    error: str = ""
    note: str = ""


def cell(row: Row | None) -> str:
    if row is None:
        return ""
    if row.error:
        return "failed"
    if row.note.startswith("absent"):
        return "absent"
    figure = f"{row.value:.3g}" if row.value < 999.5 else f"{row.value:,.0f}"
    return f"{figure} {row.unit}"


def cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return "unknown CPU"


def core_model() -> str:
    """The core's design as compilers call it: "znver4". A virtual machine's name of its
    CPU often hides it."""
    from anabranch import _C

    found = re.search(r"^CPU model: (.*)$", _C.machine_facts(), re.MULTILINE)
    return found[1] if found else ""


def new_record() -> dict:
    """A record without cases, of this machine and this moment."""
    import torch

    return {
        "machine": {
            "cpu": cpu_model(),
            "core": core_model(),
            "cpus": os.cpu_count(),
            "capability": torch.backends.cpu.get_cpu_capability(),
        },
        "run": {
            "date": time.strftime("%Y-%m-%d %H:%M"),
            "torch": torch.__version__,
            "python": platform.python_version(),
            "threads": torch.get_num_threads(),
            "source": "benchmark/run.py",
        },
        "cases": {},
    }


def brief(row: Row) -> dict:
    """The fields of a row that are set."""
    return {name: value for name, value in asdict(row).items() if value}


def add_case(record: dict, name: str, what: str, rows: list[Row]) -> None:
    record["cases"][name] = {"what": what, "rows": [brief(row) for row in rows]}


def write(record: dict, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n")


def read(path: Path) -> dict:
    return json.loads(path.read_text())


def path_of(record: dict) -> Path:
    moment = record["run"]["date"].replace(" ", "-").replace(":", "")
    return RUNS / f"{moment}.json"
