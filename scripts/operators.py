"""Writes docs/operators.md from the operator table; --check only compares."""

from __future__ import annotations

import json
import subprocess
import sys

from written import ROOT, keep

PAGE = ROOT / "docs" / "operators.md"
ALL = "bool u8 i8 i16 i32 i64 f16 bf16 f32 f64"


def table() -> list[dict]:
    command = [str(ROOT / ".venv" / "bin" / "anabranch"), "ops", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def page(rows: list[dict]) -> str:
    lines = [
        "# Operators with kernels of ours",
        "",
        "Written by `scripts/operators.py` from the operator table (`anabranch ops`). All",
        "others, and other dtypes, run through PyTorch's dispatcher, are counted, and named",
        f"in the report. {len(rows)} operators:",
        "",
        "| operator | family | dtypes |",
        "|---|---|---|",
    ]
    for row in sorted(rows, key=lambda row: (row["family"], row["op"])):
        dtypes = " ".join(row["dtypes"])
        dtypes = "all" if dtypes == ALL else dtypes
        lines.append(f"| `{row['op']}` | {row['family']} | {dtypes} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(keep(PAGE, page(table())))
