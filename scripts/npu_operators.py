"""Writes what follows from the definitions of torch_npu's operators: the module that
publishes them, and the page that lists them. --check only compares."""

from __future__ import annotations

import ast
import itertools
import re
import sys
from collections.abc import Iterator
from typing import NamedTuple

from written import ROOT, keep

OPERATORS = ROOT / "torchair-compat" / "torchair" / "_impl" / "operators"
MODULE = OPERATORS / "published.py"
PAGE = ROOT / "torchair-compat" / "OPERATORS.md"
LINE = 88  # columns of a line of Python
DECORATORS = {
    "atb_operator",
    "atb_operator_of",
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
    is_atb: bool  # of torch.ops.atb, whose operators torch_npu finds by itself


def definitions() -> list[Operator]:
    """The decorated functions, in the order of their files."""
    found = []
    for path in sorted(OPERATORS.glob("*/*.py")):
        file = str(path.relative_to(OPERATORS).with_suffix(""))
        for node in ast.parse(path.read_text()).body:
            if not isinstance(node, ast.FunctionDef):
                continue
            decorators = decorators_of(node)
            if decorators & DECORATORS:
                is_atb = bool(decorators & {"atb_operator", "atb_operator_of"})
                found.append(Operator(node.name, file, summary(node), is_atb))
    return found


def decorators_of(function: ast.FunctionDef) -> set[str]:
    called = [d.func if isinstance(d, ast.Call) else d for d in function.decorator_list]
    return {one.id for one in called if isinstance(one, ast.Name)}


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
        if not one.is_atb and not one.name.startswith("_"):
            files[one.file].append(one.name)
    folders = {file.partition("/")[0] for file in files}
    lines = [
        '"""All operators of torch_npu. scripts/npu_operators.py writes this file."""',
        "",
        *(line for folder in sorted(folders) for line in imports(folder, files)),
        "",
        "__all__ = [",
        *(f'    "{name}",' for name in sorted(itertools.chain(*files.values()))),
        "]",
    ]
    return "\n".join(lines) + "\n"


def imports(folder: str, files: dict[str, list[str]]) -> Iterator[str]:
    """The imports of a folder's files. Those without public names come first: their
    operators are found in torch.ops."""
    inside = {
        file.partition("/")[2]: names
        for file, names in files.items()
        if file.startswith(f"{folder}/")
    }
    bare = [stem for stem, names in inside.items() if not names]
    if bare:
        yield from statement(f"from .{folder} import", bare, "  # noqa: F401")
    for stem, names in inside.items():
        if names:
            yield from statement(f"from .{folder}.{stem} import", sorted(names), "")


def statement(head: str, names: list[str], comment: str) -> list[str]:
    line = f"{head} {', '.join(names)}{comment}"
    if len(line) <= LINE and (len(names) == 1 or not comment):
        return [line]
    return [f"{head} (", *(f"    {name},{comment}" for name in names), ")"]


def page(operators: list[Operator]) -> str:
    public = [one for one in operators if one.is_atb or not one.name.startswith("_")]
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
        f"| `{shown(one)}` | {cell(one.summary)} | `{one.file}.py` |"
        for one in sorted(public)
    ]
    return "\n".join(lines) + "\n"


def shown(operator: Operator) -> str:
    """The name in torch_npu."""
    inside = operator.is_atb and not operator.name.startswith("_")
    return f"atb.{operator.name}" if inside else operator.name


def cell(text: str) -> str:
    return text.replace("|", "\\|").replace("*", "\\*")


def write(operators: list[Operator]) -> int:
    return keep(MODULE, module(operators)) or keep(PAGE, page(operators))


if __name__ == "__main__":
    sys.exit(write(definitions()))
