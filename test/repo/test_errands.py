"""How many files a change opens: the list in CONTRIBUTING.md, and the recipes."""

import re

import pytest

import test_recipes
from repository import ROOT

# The most files that each change may open.
MOST = {
    "an operator": 3,
    "a pass": 4,
    "a way to multiply": 6,
    "an instruction set": 8,
    "a bug in a replayed method": 5,
    "what a super kernel may hold": 5,
    "an operator of torch_npu": 4,
}

RECIPES = {
    "an operator": test_recipes.RECIPES["operator"],
    "a pass": test_recipes.RECIPES["pass"],
    "a way to multiply": test_recipes.RECIPES["plan"],
    "an operator of torch_npu": test_recipes.NPU_RECIPE,
}


def errands() -> dict[str, tuple[int, list[str]]]:
    """The number and the paths of each entry of the list."""
    page = (ROOT / "CONTRIBUTING.md").read_text()
    section = page.partition("How many files does a change open?")[2]
    section = section.partition("\n###")[0]
    entries = re.findall(
        r"^- (.+?), at most (\d): ((?:.|\n  )+)", section, re.MULTILINE
    )
    return {
        name[0].lower() + name[1:]: (int(most), re.findall(r"`([^`]+)`", text))
        for name, most, text in entries
    }


def test_the_page_has_all_changes() -> None:
    assert {name: most for name, (most, _) in errands().items()} == MOST


@pytest.mark.parametrize("change", MOST)
def test_the_files_exist_and_are_few(change: str) -> None:
    paths = errands()[change][1]
    assert 3 <= len(paths) <= MOST[change]
    missing = [path for path in paths if not (ROOT / path).exists()]
    assert not missing


@pytest.mark.parametrize("change", RECIPES)
def test_the_recipe_edits_only_these_files(change: str) -> None:
    recipe = RECIPES[change]
    named = errands()[change][1]
    edited = {*recipe.new, *(name for name, _, _ in recipe.before)}
    strange = {path for path in edited if not any(path.startswith(n) for n in named)}
    assert not strange, "the list does not name these files"
    assert len(edited) <= MOST[change]
