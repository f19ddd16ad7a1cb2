"""Imports inside torchair-compat follow the arrows between wings, without a circle."""

import ast
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from repository import ROOT, tracked

COMPAT = ROOT / "torchair-compat"
IMPL = "torchair._impl"
FILES_IN_A_FOLDER = 20

# For each wing, the wings that it may import. Every wing may import those of BASE.
# A wing comes after those that it uses.
WINGS = {
    "options": [],
    "collectives": [],
    "device": [],
    "operators": ["device"],
    "marks": [],
    "dump": ["marks", "options"],
    "ge": ["dump", "operators"],
    "kernels": ["dump", "options"],
    "compile": ["device", "dump", "ge", "kernels", "marks", "operators", "options"],
    "cache": ["compile", "ge", "options"],
    "surface": ["device", "operators"],
}
BASE = ("log", "errors", "public_names")


def name_of(path: Path) -> str:
    parts = path.relative_to(COMPAT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def module_files() -> dict[str, Path]:
    files = tracked("torchair-compat/**/*.py", "torchair-compat/*.py")
    return {name_of(p): p for p in files if COMPAT / "tests" not in p.parents}


MODULES = module_files()


def home_of(module: str, node: ast.ImportFrom) -> str:
    """The absolute name of the module that an import statement reads."""
    if not node.level:
        return node.module or ""
    parts = module.split(".")
    if MODULES[module].name != "__init__.py":
        parts.pop()
    parts = parts[: len(parts) - node.level + 1]
    return ".".join([*parts, *([node.module] if node.module else [])])


def imports(module: str) -> Iterator[str]:
    """The distribution's modules that a module imports, inside functions too."""
    for node in ast.walk(ast.parse(MODULES[module].read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in MODULES)
        elif isinstance(node, ast.ImportFrom):
            home = home_of(module, node)
            for alias in node.names:
                within = f"{home}.{alias.name}"
                if within in MODULES:
                    yield within
                elif home in MODULES:
                    yield home


def wing_of(module: str) -> str:
    """The wing of a module of `_impl`; "" for those of BASE."""
    parts = module.removeprefix(f"{IMPL}.").split(".")
    return parts[0] if parts[0] in WINGS else ""


def test_every_folder_is_a_declared_wing() -> None:
    inside = [name for name in MODULES if name.startswith(f"{IMPL}.")]
    assert {wing_of(name) for name in inside} == {*WINGS, ""}
    alone = {name.removeprefix(f"{IMPL}.") for name in inside if not wing_of(name)}
    assert alone == set(BASE)


def test_wings_point_down() -> None:
    names = list(WINGS)
    for name, uses in WINGS.items():
        for other in uses:
            assert names.index(other) < names.index(name), f"{name} uses {other}"


@pytest.mark.parametrize("wing", WINGS)
def test_imports_follow_the_arrows(wing: str) -> None:
    """Modules of `_impl` import neither undeclared wings nor torchair's public modules."""
    allowed = {"", wing, *WINGS[wing]}
    for module in MODULES:
        if wing_of(module) != wing or not module.startswith(f"{IMPL}."):
            continue
        for other in imports(module):
            assert other.startswith(f"{IMPL}."), f"{module} imports {other}"
            assert wing_of(other) in allowed, f"{module} imports {other}"


def test_no_private_name_leaves_its_module() -> None:
    """No module imports a name with an underscore from another one. Public modules may give
    such names to their imports."""
    for module, path in MODULES.items():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and home_of(module, node) in MODULES:
                taken = [
                    a.name
                    for a in node.names
                    if a.name.startswith("_")
                    and f"{home_of(module, node)}.{a.name}" not in MODULES
                ]
                assert not taken, f"{module} imports {taken}"


def test_no_circle_of_files() -> None:
    graph = {module: {*imports(module)} - {module} for module in MODULES}
    TopologicalSorter(graph).prepare()


def test_folders_are_small() -> None:
    folders: dict[Path, int] = {}
    for path in tracked("torchair-compat/**/*.py"):
        folders[path.parent] = folders.get(path.parent, 0) + 1
    large = {f: n for f, n in folders.items() if n > FILES_IN_A_FOLDER}
    assert not large
