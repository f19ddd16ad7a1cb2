"""Prints the sizes of files and functions. Files and functions that are too long fail, and
so do units of compilation of too many files."""

import ast
import json
import re
import statistics
from collections import Counter
from pathlib import Path

from repository import ROOT, script, tracked

FILE_LINES = 800
FUNCTION_LINES = 120
# An edit of one file compiles its unit again.
UNIT_FILES = 12


def cpp_functions(path: Path) -> list[tuple[str, int]]:
    """Pairs a column-0 line that opens a body with the next column-0 brace."""
    found, start, name = [], 0, ""
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if re.match(r"[A-Za-z_].*[({,]$", line) and not line.startswith("namespace"):
            if not start:
                start, name = number, line
        elif line.startswith("}"):
            if start and "(" in name:
                found.append((name, number - start + 1))
            start = 0
        elif not line or line[0] not in " \t:)":
            start = 0 if not start or line else start
    return found


def python_functions(path: Path) -> list[tuple[str, int]]:
    return [
        (node.name, (node.end_lineno or node.lineno) - node.lineno + 1)
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]


def card(label: str, files: list[Path], functions: list[tuple[str, int]]) -> None:
    sizes = sorted(len(path.read_text().splitlines()) for path in files)
    lengths = [length for _, length in functions]
    if not sizes or not lengths:
        return
    over = sum(length > 60 for length in lengths)
    print(
        f"{label}: {len(sizes)} files, lines median {statistics.median(sizes):.0f}"
        f" p90 {sizes[len(sizes) * 9 // 10]} max {sizes[-1]};"
        f" {len(lengths)} functions, {100 * over / len(lengths):.1f} % over 60 lines,"
        f" max {max(lengths)}"
    )


def check(label: str, files: list[Path], functions_of) -> None:
    functions = [
        (f"{path.relative_to(ROOT)}: {name}", length)
        for path in files
        for name, length in functions_of(path)
    ]
    card(label, files, functions)
    long_files = [
        str(path.relative_to(ROOT))
        for path in files
        if len(path.read_text().splitlines()) > FILE_LINES
    ]
    long_functions = [name for name, length in functions if length > FUNCTION_LINES]
    assert not long_files, f"over {FILE_LINES} lines"
    assert not long_functions, f"over {FUNCTION_LINES} lines"


def test_cpp_sizes() -> None:
    files = tracked("src/**/*.cpp", "src/**/*.h", "tools/*.cpp", "python/**/*.cpp")
    check("C++", files, cpp_functions)


def test_python_sizes() -> None:
    check("Python", tracked("*.py"), python_functions)


def test_each_source_is_compiled_once() -> None:
    files_of = script("lint").files_of
    built = json.loads((ROOT / "build" / "compile_commands.json").read_text())
    # A build that made wheels has a binding for each Python.
    built = [unit for unit in built if "/binding_" not in unit["command"]]
    compiled = Counter(Path(one["file"]) for unit in built for one in files_of(unit))
    sources = tracked("src/*.cpp", "python/bindings/*.cpp")
    parts = [s for s in sources if not s.name.endswith(("Test.cpp", "Fuzz.cpp"))]
    assert len(parts) > 300
    assert {str(s): compiled[s] for s in parts if compiled[s] != 1} == {}


def test_units_are_small() -> None:
    units = [*(ROOT / "build" / "generated" / "units").rglob("*.cpp")]
    assert units
    assert [u for u in units if u.read_text().count("#include") > UNIT_FILES] == []
