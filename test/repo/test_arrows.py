"""Includes follow the arrows between rooms and wings that CMakeLists.txt declares."""

import re
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from repository import ROOT, tracked

SRC = ROOT / "src"
READELF = "/usr/lib/llvm-19/bin/llvm-readelf"


def declared_rooms() -> dict[str, tuple[bool, list[str]]]:
    """For each room: whether it uses LLVM, and the rooms that it may include."""
    rooms = {}
    text = (ROOT / "CMakeLists.txt").read_text()
    for line in re.findall(r"^\s*anabranch_room\(([^)]*)\)", text, re.MULTILINE):
        words = line.split()
        uses = words[words.index("USES") + 1 :] if "USES" in words else []
        rooms[words[0]] = ("LLVM" in words, uses)
    return rooms


ROOMS = declared_rooms()


def declared_wings() -> dict[str, list[str]]:
    """For each wing ("kernels/emit"): the wings of its room that it may include."""
    wings = {}
    text = (ROOT / "CMakeLists.txt").read_text()
    for line in re.findall(r"^\s*anabranch_wing\(([^)]*)\)", text, re.MULTILINE):
        words = line.split()
        room = words[0].split("/")[0]
        uses = words[words.index("USES") + 1 :] if "USES" in words else []
        wings[words[0]] = [f"{room}/{name}" for name in uses]
    return wings


WINGS = declared_wings()


def sources(room: str) -> list[Path]:
    folder = SRC / room
    return [p for p in folder.rglob("*") if p.suffix in (".cpp", ".h", ".c")]


def includes(path: Path) -> list[str]:
    return re.findall(
        r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', path.read_text(), re.MULTILINE
    )


def test_every_folder_is_a_declared_room() -> None:
    folders = {path.name for path in SRC.iterdir() if path.is_dir()}
    assert folders <= set(ROOMS)


def test_arrows_point_down_the_flow() -> None:
    """A room is declared after all that it uses, so there are no cycles."""
    names = list(ROOMS)
    for name, (_, uses) in ROOMS.items():
        for other in uses:
            assert names.index(other) < names.index(name), f"{name} uses {other}"


@pytest.mark.parametrize("room", sorted(ROOMS))
def test_includes_follow_the_arrows(room: str) -> None:
    allowed = {room, *ROOMS[room][1]}
    for path in sources(room):
        for name in includes(path):
            first = name.split("/")[0]
            if first in ROOMS:
                assert first in allowed, f"{path.relative_to(ROOT)} includes {name}"


def test_wings_point_down_the_flow() -> None:
    """A wing is declared after all that it uses, so there are no cycles."""
    names = list(WINGS)
    for name, uses in WINGS.items():
        for other in uses:
            assert names.index(other) < names.index(name), f"{name} uses {other}"


def wing_of(name: str) -> str:
    """The folder of an include or a file: "kernels/emit", "kernels" at the door."""
    return name.rsplit("/", 1)[0]


@pytest.mark.parametrize("wing", sorted(WINGS))
def test_wings_follow_the_arrows(wing: str) -> None:
    """A file of a wing includes neither another wing of its room that is not
    declared nor the room's door; tests may include the door."""
    room = wing.split("/")[0]
    allowed = {wing, *WINGS[wing]}
    for path in (p for p in (SRC / wing).iterdir() if p.suffix in (".cpp", ".h", ".c")):
        for name in includes(path):
            if not name.startswith(f"{room}/") or "generated" in name:
                continue
            if "Test" in path.name or "Fuzz" in path.name:
                continue
            assert wing_of(name) in allowed, f"{path.relative_to(ROOT)} includes {name}"


def units() -> dict[str, set[str]]:
    """For each unit ("schedule/cost/Work", a header and its source): the units that its
    files include."""
    found: dict[str, set[str]] = {}
    for room in ROOMS:
        for path in sources(room):
            unit = str(path.relative_to(SRC).with_suffix(""))
            used = {n.rsplit(".", 1)[0] for n in includes(path) if (SRC / n).exists()}
            found.setdefault(unit, set()).update(used - {unit})
    return found


def circles(graph: dict[str, set[str]]) -> list[set[str]]:
    """The sets of units that include each other, directly or through others."""
    below: dict[str, set[str]] = {}
    for start in graph:
        todo, seen = [start], set()
        while todo:
            for unit in graph.get(todo.pop(), set()) - seen:
                seen.add(unit)
                todo.append(unit)
        below[start] = seen
    found = []
    for unit in graph:
        circle = {other for other in below[unit] if unit in below.get(other, ())}
        if circle and circle not in found:
            found.append(circle)
    return found


def test_no_circle_of_files() -> None:
    found = [sorted(circle) for circle in circles(units())]
    assert not found, "these files include each other"


FOLDER_FILES = 25


def test_no_folder_is_crowded() -> None:
    """A test counts like any other file."""
    count = Counter(str(path.parent.relative_to(ROOT)) for path in tracked())
    crowded = {folder for folder, files in count.items() if files > FOLDER_FILES}
    assert not crowded, f"over {FOLDER_FILES} files"


@pytest.mark.parametrize("room", sorted(r for r in ROOMS if not ROOMS[r][0]))
def test_runtime_rooms_know_no_compiler(room: str) -> None:
    for path in sources(room):
        for name in includes(path):
            assert not name.startswith(("llvm", "mlir", "lld", "Python", "torch")), (
                f"{path.relative_to(ROOT)} includes {name}"
            )


def test_public_headers_stand_alone() -> None:
    for path in (ROOT / "include").rglob("*.h"):
        for name in includes(path):
            assert name.startswith("anabranch/") or "/" not in name, (
                f"{path.relative_to(ROOT)} includes {name}"
            )


def test_runtime_library_links_no_compiler() -> None:
    library = ROOT / "build" / "lib" / "libanabranch_runtime.so"
    if not library.exists():
        pytest.skip("libanabranch_runtime is not built")
    dynamic = subprocess.run(
        [READELF, "-d", library], capture_output=True, text=True, check=True
    ).stdout
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic)
    for name in needed:
        assert not re.match(r"lib(LLVM|MLIR|python|torch|c10|anabranch_comp)", name), (
            name
        )
