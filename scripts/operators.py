"""Writes the files that follow from the operator table: docs/operators.md, and the list
of operators that capture keeps whole. --check only compares."""

from __future__ import annotations

import json
import subprocess
import sys

from written import ROOT, keep

PAGE = ROOT / "docs" / "operators.md"
WHOLE = ROOT / "python" / "anabranch" / "capture" / "whole_operators.py"
ALL = "bool u8 i8 i16 i32 i64 f16 bf16 f32 f64"
SMALL = " f8e4m3fn f8e5m2 f8e4m3fnuz f8e5m2fnuz"


def table() -> list[dict]:
    command = [str(ROOT / "build" / "bin" / "anabranch-opt"), "--operators"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def page(rows: list[dict]) -> str:
    lines = [
        "# Operators with kernels",
        "",
        f"Which operators does Anabranch compile? These {len(rows)}, for these dtypes. PyTorch",
        "runs all others; the report counts and names them. `scripts/operators.py` writes this",
        "page from the operator table (`anabranch ops`). f8 are the four floats of eight bits with",
        "a mantissa.",
        "",
        "| operator | family | dtypes |",
        "|---|---|---|",
    ]
    for row in sorted(rows, key=lambda row: (row["family"], row["op"])):
        dtypes = " ".join(row["dtypes"]).replace(ALL, "all").replace(SMALL, ", f8")
        lines.append(f"| `{row['op']}` | {row['family']} | {dtypes} |")
    return "\n".join(lines) + "\n"


def whole(rows: list[dict]) -> str:
    names = sorted(row["op"] for row in rows if row["whole"])
    return "\n".join(
        [
            '"""Operators that reach the compiler whole: rows of the operator table that',
            '`addWhole` adds. scripts/operators.py writes this file."""',
            "",
            "NAMES = (",
            *(f'    "{name}",' for name in names),
            ")",
            "",
        ]
    )


def advise(rows: list[dict]) -> None:
    """Names rows that are not in the page yet and lower an operator that PyTorch takes
    apart. The compiler would never see that operator."""
    known = PAGE.read_text()
    new = [row["op"] for row in rows if f"| `{row['op']}` |" not in known]
    for name in new:
        if "::" not in name and is_taken_apart(name):
            kept = any(row["op"] == name and row["whole"] for row in rows)
            print(
                f"{name}: PyTorch takes it apart before the compiler sees it; "
                + ("it is kept whole" if kept else "addWhole would keep it whole")
            )


def is_taken_apart(name: str) -> bool:
    import torch
    from torch._decomp import core_aten_decompositions

    packet, _, overload = name.partition(".")
    operator = getattr(getattr(torch.ops.aten, packet), overload or "default")
    composite = torch._C._dispatch_has_kernel_for_dispatch_key(
        operator.name(), "CompositeImplicitAutograd"
    )
    return composite or operator in core_aten_decompositions()


def write(rows: list[dict]) -> int:
    if "--check" not in sys.argv:
        advise(rows)
    return keep(PAGE, page(rows)) or keep(WHOLE, whole(rows))


if __name__ == "__main__":
    sys.exit(write(table()))
