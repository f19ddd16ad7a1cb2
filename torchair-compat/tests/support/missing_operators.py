"""Says which operators of op-plugin's schemas this package has, refuses, and lacks.

    missing_operators.py FOLDER

FOLDER is a checkout of op-plugin's repository. The operators are those of the custom
section of its list of functions."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import torch_npu
from torchair._impl.surface.table import REFUSED, ROWS

SCHEMAS = "op_plugin/config/op_plugin_functions.yaml"


def names(text: str) -> list[str]:
    """The names of the custom section, each once. Sections begin with a line of one
    word."""
    section = re.search(r"^custom:\n(.*?)(?=^\w+:|\Z)", text, re.MULTILINE | re.DOTALL)
    found = re.findall(r"^ *- func: (\w+)", section[1], re.MULTILINE) if section else []
    return list(dict.fromkeys(found))


def main() -> int:
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    wanted = names((Path(sys.argv[1]) / SCHEMAS).read_text(encoding="utf-8"))
    refused = {row.name for row in ROWS if row.kind == REFUSED}
    kinds: dict[str, list[str]] = {"there": [], "refused": [], "missing": []}
    for name in wanted:
        if f"torch_npu.{name}" in refused:
            kinds["refused"].append(name)
        else:
            kinds["there" if hasattr(torch_npu, name) else "missing"].append(name)
    counts = ", ".join(f"{len(found)} {kind}" for kind, found in kinds.items())
    print(f"{len(wanted)} operators: {counts}")
    print(*kinds["missing"], sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
