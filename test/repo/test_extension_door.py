"""torchair-compat imports the core only as `anabranch` and `anabranch.extension`."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from repository import ROOT, tracked

COMPAT = ROOT / "torchair-compat"
DOOR = "extension"


def product_files() -> list[Path]:
    """The distribution's own files, without its tests."""
    files = tracked("torchair-compat/**/*.py", "torchair-compat/*.py")
    return [path for path in files if COMPAT / "tests" not in path.parents]


def public_names() -> set[str]:
    """`__all__` of the core's first module."""
    path = ROOT / "python" / "anabranch" / "__init__.py"
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return set(ast.literal_eval(node.value))
    raise AssertionError("no __all__")


def private_uses(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """The lines that import other names of the core than the door's."""
    allowed = public_names() | {DOOR}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.startswith("anabranch."):
                    yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom) and not node.level:
            home = node.module or ""
            if home == "anabranch":
                for alias in node.names:
                    if alias.name not in allowed:
                        yield node.lineno, f"anabranch.{alias.name}"
            elif home.startswith("anabranch.") and home != f"anabranch.{DOOR}":
                yield node.lineno, home
        elif isinstance(node, ast.Attribute):
            name = ast.unparse(node)
            if name.startswith("anabranch.") and node.attr not in allowed:
                yield node.lineno, name


def test_files_are_found() -> None:
    assert len(product_files()) > 40


@pytest.mark.parametrize(
    "path", product_files(), ids=lambda path: str(path.relative_to(COMPAT))
)
def test_only_the_door_is_used(path: Path) -> None:
    found = list(private_uses(ast.parse(path.read_text())))
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


def test_the_core_knows_no_front_end() -> None:
    for path in tracked("python/anabranch/**", "src/**"):
        if path.suffix in (".py", ".cpp", ".h", ".td", ".fbs"):
            known = path.read_text().lower()
            assert "torchair" not in known, path.relative_to(ROOT)
