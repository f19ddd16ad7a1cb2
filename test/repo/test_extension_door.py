"""Front ends import the core only as `anabranch` and `anabranch.extension`:
torchair-compat, anabranch-vllm and `anabranch.llm`."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from repository import ROOT, tracked

CORE = ROOT / "python" / "anabranch"
COMPAT = ROOT / "torchair-compat"
DOOR = "extension"
FRONT_ENDS_OF_THE_CORE = ("llm",)


def product_files() -> list[Path]:
    """The front ends' own files, without tests."""
    compat = tracked("torchair-compat/**/*.py", "torchair-compat/*.py")
    vllm = tracked("anabranch-vllm/anabranch_vllm/*.py")
    ours = [f"python/anabranch/{name}/**/*.py" for name in FRONT_ENDS_OF_THE_CORE]
    ours += [f"python/anabranch/{name}/*.py" for name in FRONT_ENDS_OF_THE_CORE]
    compat = [p for p in compat if COMPAT / "tests" not in p.parents]
    return [*compat, *vllm, *tracked(*ours)]


def public_names() -> set[str]:
    """`__all__` of the core's first module."""
    for node in ast.parse((CORE / "__init__.py").read_text()).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return set(ast.literal_eval(node.value))
    raise AssertionError("no __all__")


def imported_from(node: ast.ImportFrom, path: Path) -> str:
    """The module of an import as a dotted name: `from ..x import y` of
    python/anabranch/llm/z.py imports from `anabranch.x`."""
    if not node.level:
        return node.module or ""
    if CORE not in path.parents:
        return ""
    folder = ("anabranch", *path.relative_to(CORE).parts[:-1])
    names = folder[: len(folder) - node.level + 1]
    return ".".join([*names, *([node.module] if node.module else [])])


def own_package(path: Path) -> str:
    """`anabranch.llm` for a file of that front end, "" for another distribution's."""
    if CORE not in path.parents:
        return ""
    return f"anabranch.{path.relative_to(CORE).parts[0]}"


def private_uses(tree: ast.AST, path: Path = COMPAT) -> Iterator[tuple[int, str]]:
    """The lines that import other names of the core than the door's."""
    allowed, own = public_names() | {DOOR}, own_package(path)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.startswith("anabranch."):
                    yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            home = imported_from(node, path)
            if home == "anabranch":
                for alias in node.names:
                    if alias.name not in allowed:
                        yield node.lineno, f"anabranch.{alias.name}"
            elif own and f"{home}.".startswith(f"{own}."):
                continue
            elif home.startswith("anabranch.") and home != f"anabranch.{DOOR}":
                yield node.lineno, home
        elif isinstance(node, ast.Attribute):
            name = ast.unparse(node)
            if name.startswith("anabranch.") and node.attr not in allowed:
                yield node.lineno, name


def test_files_are_found() -> None:
    found = product_files()
    assert sum(COMPAT in path.parents for path in found) > 40
    assert sum(CORE in path.parents for path in found) > 30


@pytest.mark.parametrize(
    "path", product_files(), ids=lambda path: str(path.relative_to(ROOT))
)
def test_only_the_door_is_used(path: Path) -> None:
    found = list(private_uses(ast.parse(path.read_text()), path))
    assert not found, f"{path.relative_to(ROOT)} goes around anabranch.extension"


@pytest.mark.parametrize(
    "line",
    [
        "import anabranch.graph",
        "from anabranch import _C",
        "from anabranch.replay import code_digest",
        "def f():\n    from anabranch import package",
        "import anabranch\nanabranch.gears.find",
    ],
)
def test_going_around_it_is_seen(line: str) -> None:
    assert list(private_uses(ast.parse(line)))


@pytest.mark.parametrize(
    ("line", "is_around"),
    [
        ("from ... import _C", True),
        ("from ...packages import cache", True),
        ("def f():\n    from ...deploy.load import load", True),
        ("from ...extension import CachedMethod", False),
        ("from ... import Config", False),
        ("from .. import checkpoint", False),
        ("from ..programs import Programs", False),
        ("from .draws import Draws", False),
    ],
)
def test_relative_imports_are_seen(line: str, is_around: bool) -> None:
    path = CORE / "llm" / "sampling" / "file.py"
    assert bool(list(private_uses(ast.parse(line), path))) == is_around


def test_the_core_knows_no_front_end() -> None:
    for path in tracked("python/anabranch/**", "src/**"):
        if path.suffix in (".py", ".cpp", ".h", ".td", ".fbs"):
            known = path.read_text().lower()
            assert "torchair" not in known, path.relative_to(ROOT)
