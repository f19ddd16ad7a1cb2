"""The list of modules in a wing's docstring, or first header, is the wing's folder."""

import ast
import re
from pathlib import Path

import pytest

from repository import ROOT, tracked

# A wing's own `__init__.py` has the list of a Python wing. The first header to read has
# the list of a wing of the binding.
PACKAGES = (
    "python/anabranch",
    "python/anabranch_runtime",
    "anabranch-vllm/anabranch_vllm",
)
COMPAT = ROOT / "torchair-compat" / "torchair" / "_impl"
BINDINGS = ROOT / "python" / "bindings"
ROW = re.compile(r"^(\w+/?) {2,}\S", re.MULTILINE)
HEADER_ROW = re.compile(r"^//   (\w+)  +\S", re.MULTILINE)


def wings() -> list[Path]:
    """The folders of Python modules in these packages, and the wings of torchair-compat.
    A folder inside of such a wing may do without a list: a new operator's folder does."""
    files = [p for name in PACKAGES for p in tracked(f"{name}/**/*.py", f"{name}/*.py")]
    compat = [path.parent for path in COMPAT.glob("*/__init__.py")]
    return sorted({*(path.parent for path in files), *compat, COMPAT})


def modules(folder: Path) -> set[str]:
    """`name` for each module of the folder, `name/` for each wing inside it."""
    found = {p.stem for p in tracked(f"{name_of(folder)}/*.py") if p.parent == folder}
    inner = {f"{p.parent.name}/" for p in folder.glob("*/__init__.py")}
    return found - {"__init__"} | inner


def docstring(folder: Path) -> str:
    return ast.get_docstring(ast.parse((folder / "__init__.py").read_text())) or ""


def name_of(folder: Path) -> str:
    return str(folder.relative_to(ROOT))


@pytest.mark.parametrize("folder", wings(), ids=name_of)
def test_docstring_lists_the_modules(folder: Path) -> None:
    listed = ROW.findall(docstring(folder))
    assert sorted(listed) == sorted(modules(folder))


@pytest.mark.parametrize("folder", wings(), ids=name_of)
def test_docstring_says_where_to_start(folder: Path) -> None:
    start = re.search(r"[Ss]tart\s+with\s+`(\w+/?)`", docstring(folder))
    assert start, "no `Start with`"
    assert start[1] in modules(folder)


@pytest.mark.parametrize(
    "folder", sorted(p for p in BINDINGS.iterdir() if p.is_dir()), ids=name_of
)
def test_first_header_lists_the_files(folder: Path) -> None:
    says = f"// The wing `{folder.name}`"
    (first,) = [path for path in folder.glob("*.h") if says in path.read_text()]
    listed = HEADER_ROW.findall(first.read_text())
    stems = {path.stem for path in tracked(f"{name_of(folder)}/*")}
    assert sorted(listed) == sorted(stems)


def test_a_wrong_list_is_seen() -> None:
    assert ROW.findall("A wing.\n\none    the first\ntwo/  a wing\n") == ["one", "two/"]
    assert ROW.findall("A wing. Start with `one`.\n\n    package = load(x)\n") == []
