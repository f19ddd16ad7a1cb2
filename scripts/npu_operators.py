"""Writes what follows from the definitions of torch_npu's operators: the module that
publishes them, and the page that lists them. --check only compares."""

from __future__ import annotations

import ast
import itertools
import re
import sys
from typing import NamedTuple

from written import ROOT, keep

OPERATORS = ROOT / "torchair-compat" / "torchair" / "_impl" / "operators"
MODULE = OPERATORS / "published.py"
PAGE = ROOT / "torchair-compat" / "OPERATORS.md"
LINE = 88  # columns of a line of Python
DECORATORS = {
    "npu_attention",
    "npu_effect",
    "npu_function",
    "npu_operator",
    "npu_operator_of",
}


class Operator(NamedTuple):
    name: str
    file: str  # below OPERATORS, without its ending
    summary: str


def definitions() -> list[Operator]:
    """The decorated functions, in the order of their files."""
    found = []
    for path in sorted(OPERATORS.glob("*/*.py")):
        file = str(path.relative_to(OPERATORS).with_suffix(""))
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.FunctionDef) and is_definition(node):
                found.append(Operator(node.name, file, summary(node)))
    return found


def is_definition(function: ast.FunctionDef) -> bool:
    for decorator in function.decorator_list:
        called = decorator.func if isinstance(decorator, ast.Call) else decorator
        if isinstance(called, ast.Name) and called.id in DECORATORS:
            return True
    return False


def summary(function: ast.FunctionDef) -> str:
    """The first sentence of the documentation, on one line."""
    paragraph = (ast.get_docstring(function) or "").partition("\n\n")[0]
    text = " ".join(paragraph.split())
    return re.split(r"(?<=\.)\s(?=[A-Z])", text)[0]


def module(operators: list[Operator]) -> str:
    """The text of a module that imports every operator."""
    files: dict[str, list[str]] = {}
    for one in operators:
        files.setdefault(one.file, [])
        if not one.name.startswith("_"):
            files[one.file].append(one.name)
    lines = [
        '"""All operators of torch_npu. scripts/npu_operators.py writes this file."""',
        "",
        *(line for file, names in files.items() for line in imports(file, names)),
        "",
        "__all__ = [",
        *(f'    "{name}",' for name in sorted(itertools.chain(*files.values()))),
        "]",
    ]
    return "\n".join(lines) + "\n"


def imports(file: str, names: list[str]) -> list[str]:
    folder, _, stem = file.rpartition("/")
    if not names:  # its operators are for torch.ops.npu only
        return [f"from .{folder} import {stem}  # noqa: F401"]
    head = f"from .{folder}.{stem} import"
    line = f"{head} {', '.join(sorted(names))}"
    if len(line) <= LINE:
        return [line]
    return [f"{head} (", *(f"    {name}," for name in sorted(names)), ")"]


def page(operators: list[Operator]) -> str:
    public = [one for one in operators if not one.name.startswith("_")]
    lines = [
        "# Operators of torch_npu",
        "",
        f"Which operators does this package have? These {len(public)}.",
        "`help(torch_npu.NAME)` prints what each one computes and refuses.",
        "`scripts/npu_operators.py` writes this page from the definitions in",
        "`torchair/_impl/operators`.",
        "",
        "| operator | what it computes | defined in |",
        "|---|---|---|",
    ]
    lines += [
        f"| `{one.name}` | {cell(one.summary)} | `{one.file}.py` |"
        for one in sorted(public)
    ]
    return "\n".join(lines) + "\n"


def cell(text: str) -> str:
    return text.replace("|", "\\|").replace("*", "\\*")


def write(operators: list[Operator]) -> int:
    return keep(MODULE, module(operators)) or keep(PAGE, page(operators))


if __name__ == "__main__":
    sys.exit(write(definitions()))
