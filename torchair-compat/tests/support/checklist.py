"""The page of the behaviour checklist: each line, its tests, and their results.

`pytest torchair-compat/tests --checklist` runs the tests and writes the page. A run of
some tests keeps the results of the other lines."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
LINES = TESTS / "checklist.txt"
PAGE = TESTS.parent / "CHECKLIST.md"
HEAD = """# The behaviour checklist

Which behaviour of TorchAir does this package have, and which test holds it to that? `holds`: all tests of the
line passed when they last ran. `pytest torchair-compat/tests --checklist` writes this page.

"""


def lines() -> list[tuple[str, str]]:
    """(number, text) of each line; a heading has no number."""
    found = []
    for text in LINES.read_text(encoding="utf-8").splitlines():
        number, _, rest = text.partition(" ")
        found.append(("" if number == "#" else number, rest))
    return found


def tests() -> dict[str, list[str]]:
    """The tests of each line, as `folder/file.py::name`."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted(TESTS.rglob("test_*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if not isinstance(node, ast.FunctionDef):
                continue
            name = f"{path.relative_to(TESTS).as_posix()}::{node.name}"
            for number in _marked(node):
                found[number].append(name)
    return found


def _marked(node: ast.FunctionDef) -> list[str]:
    return [
        argument.value
        for mark in node.decorator_list
        if isinstance(mark, ast.Call) and ast.unparse(mark.func).endswith("checklist")
        for argument in mark.args
        if isinstance(argument, ast.Constant)
    ]


def results() -> dict[str, str]:
    """The results in the page, by line."""
    if not PAGE.exists():
        return {}
    rows = re.findall(r"^\| (T\d+) \|.*\| ([\w ]+) \|$", PAGE.read_text(), re.MULTILINE)
    return dict(rows)


def merged(outcomes: dict[str, list[str]]) -> dict[str, str]:
    """The page's results, updated with those of this run, by line."""
    found = results()
    for number, ends in outcomes.items():
        failed = "failed" in ends
        passed = "passed" in ends
        found[number] = "fails" if failed else "holds" if passed else "skipped"
    return found


def page(found: dict[str, str]) -> str:
    """The text of the page with these results."""
    by_line = tests()
    known = [number for number, _ in lines() if number]
    held = sum(found.get(number) == "holds" for number in known if by_line.get(number))
    text = [HEAD, f"{held} of {len(known)} lines hold.\n"]
    for number, says in lines():
        if not number:
            text.append(f"\n## {says}\n\n| line | behaviour | tests | result |\n")
            text.append("|---|---|---|---|\n")
            continue
        names = by_line.get(number, [])
        shown = "<br>".join(f"`{name}`" for name in names)
        result = found.get(number, "not run") if names else "no test"
        says = says.replace("|", "\\|")
        text.append(f"| {number} | {says} | {shown} | {result} |\n")
    return "".join(text)
