"""Imports in python/anabranch follow the arrows between wings, without a circle.

An import inside a function counts like any other. An import for the type checker alone
does not count, since it does not run.
"""

import ast
from pathlib import Path

import pytest

from repository import ROOT, tracked

PACKAGE = ROOT / "python" / "anabranch"

# The base: modules that every wing may import. They import nothing but each other.
BASE = {
    "_C",
    "attributes",
    "collector",
    "config",
    "dynamo_lock",
    "errors",
    "huge_pages",
    "list_arguments",
    "location",
    "memory",
    "metrics",
    "parameter_file",
    "purity",
    "report",
    "scratch",
    "torch_version",
}
# Each wing, or module beside the wings, and the wings that it may import besides
# the base. A wing comes after all that it imports, so there are no circles.
ARROWS: dict[str, set[str]] = {
    "marks": set(),
    "collectives": {"marks"},
    "describe": {"marks", "collectives"},
    "trace": set(),
    "notices": set(),
    "guards": set(),
    "shapes": {"marks", "describe", "guards"},
    "packages": {*("marks", "collectives", "describe", "trace", "notices", "shapes")},
    "saved": {"describe", "shapes", "packages"},
    "capture": {"marks", "describe", "shapes", "saved"},
    "backend": {
        *("marks", "collectives", "describe", "shapes", "packages", "saved", "capture"),
        *("notices", "guards"),
    },
    "deploy": {"marks", "collectives", "describe", "packages", "capture", "shapes"},
    "method_cache": {
        *("marks", "collectives", "describe", "trace", "shapes", "packages", "capture"),
        "backend",
    },
    "extension": {
        *("marks", "describe", "trace", "shapes", "packages", "capture"),
        *("backend", "deploy", "method_cache"),
    },
    "tools": set(),
    "llm": {"extension"},
    "measure": {"describe", "packages", "trace", "backend", "deploy"},
    "commands": {
        *("packages", "backend", "deploy", "method_cache", "llm", "measure"),
    },
    "cli": {"trace", "packages", "commands"},
}
# The door looks names up when they are used. Modules of the package import only
# `__version__` from it; a front end imports any public name.
DOOR = "__init__"
FRONT_ENDS = {"llm"}


def dotted(path: Path) -> str:
    """The dotted name of a file: `describe.graph`, or `describe` for a wing's own."""
    name = ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
    return name.removesuffix(".__init__")


MODULES = {dotted(path): path for path in tracked("python/anabranch/**/*.py")}
MODULES |= {dotted(path): path for path in PACKAGE.glob("*.py")}


def typing_only(tree: ast.Module) -> set[ast.AST]:
    """The nodes under `if TYPE_CHECKING`."""
    return {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for inner in ast.walk(node)
    }


def imports(name: str) -> list[tuple[str, str]]:
    """(module, name in it) of each import from this package. `_C` counts as a module."""
    path = MODULES[name]
    folder = list(path.relative_to(PACKAGE).parts[:-1])
    tree = ast.parse(path.read_text())
    unseen = typing_only(tree)
    found = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.ImportFrom) or node in unseen:
            continue
        module = (node.module or "").split(".") if node.module else []
        if node.level:
            base = folder[: len(folder) - node.level + 1] + module
        elif module[:1] == ["anabranch"]:
            base = module[1:]
        else:
            continue
        for alias in node.names:
            inner = ".".join([*base, alias.name])
            if inner in MODULES or inner == "_C":
                found.append((inner, ""))
            else:
                found.append((".".join(base) or DOOR, alias.name))
    return found


def wing(name: str) -> str:
    return name.split(".")[0]


@pytest.mark.parametrize("name", sorted(MODULES))
def test_imports_follow_the_arrows(name: str) -> None:
    if name == DOOR:
        return
    own = wing(name)
    allowed = BASE | {DOOR} | ({own} | ARROWS[own] if own in ARROWS else set())
    for module, inner in imports(name):
        assert wing(module) in allowed, f"{name} imports {module}"
        if module == DOOR and own not in FRONT_ENDS:
            assert inner == "__version__", f"{name} imports {inner}"


def test_wings_point_down() -> None:
    names = list(ARROWS)
    for name, uses in ARROWS.items():
        for other in uses:
            assert names.index(other) < names.index(name), f"{name} imports {other}"


@pytest.mark.parametrize("name", sorted(MODULES))
def test_private_names_stay_in_their_module(name: str) -> None:
    for module, inner in imports(name):
        private = inner.startswith("_") and not inner.startswith("__")
        assert not private, f"{name} imports {inner} of {module}"


def test_no_circle_of_modules() -> None:
    """Modules of one wing form no circle either."""
    arrows = {
        name: {module for module, _ in imports(name) if module in MODULES}
        for name in MODULES
    }
    while leaves := [name for name, uses in arrows.items() if not uses]:
        for name in leaves:
            del arrows[name]
        for uses in arrows.values():
            uses -= set(leaves)
    assert not arrows, "these import each other, or what does"


def test_folders_are_small() -> None:
    for folder in {path.parent for path in MODULES.values()}:
        assert len(list(folder.glob("*.py"))) <= 20, folder.relative_to(ROOT)
