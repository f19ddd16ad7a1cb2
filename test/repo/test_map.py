"""The maps in README.md and ARCHITECTURE.md list all folders, and no others."""

import re

import pytest

from repository import ROOT, tracked

NESTED = ("src", "python", "test", "include", "docs")


def real_folders() -> set[str]:
    """Top-level folders, and the rooms inside src, python and test."""
    folders = set()
    for path in tracked():
        parts = path.relative_to(ROOT).parts
        if len(parts) > 1 and not parts[0].startswith("."):
            folders.add(parts[0])
            if len(parts) > 2 and parts[0] in NESTED:
                folders.add(f"{parts[0]}/{parts[1]}")
    return folders


def mapped_folders(page: str) -> set[str]:
    """The first word of the lines of the fenced block that starts with `map`, and the
    folders that headings name."""
    text = (ROOT / page).read_text()
    block = re.search(r"```map\n(.*?)```", text, re.DOTALL)
    assert block, f"{page} has no map"
    headings = re.findall(r"^## (.*)$", text, re.MULTILINE)
    names = {name for heading in headings for name in heading.split(", ")}
    found = {name for name in names if (ROOT / name).is_dir()}
    for line in block[1].splitlines():
        word = line.split(" ")[0]
        if word:
            assert word.endswith("/"), f"{page}: {line}"
            found.add(word.rstrip("/"))
    return found


@pytest.mark.parametrize("page", ["README.md", "ARCHITECTURE.md"])
def test_map_is_true(page: str) -> None:
    mapped, real = mapped_folders(page), real_folders()
    parents = {"/".join(name.split("/")[:-1]) for name in mapped}
    assert mapped <= real, "on the map, not in the repository"
    missing = real - mapped - parents
    if page == "README.md":
        missing = {name for name in missing if "/" not in name or "src/" in name}
    assert not missing, "in the repository, not on the map"


def test_architecture_fits_a_few_screens() -> None:
    """It is a map: lists of files are in the wings' own docstrings and headers."""
    assert len((ROOT / "ARCHITECTURE.md").read_text().splitlines()) <= 200


def test_architecture_names_every_wing() -> None:
    """The text of ARCHITECTURE.md says what each folder inside a room is for."""
    rooms = [path for path in (ROOT / "src").iterdir() if path.is_dir()]
    wings = [path for room in rooms for path in room.iterdir() if path.is_dir()]
    page = (ROOT / "ARCHITECTURE.md").read_text()
    names = {str(path.relative_to(ROOT)) for path in wings if any(path.glob("*.*"))}
    assert not {name for name in names if f"`{name}`" not in page}
