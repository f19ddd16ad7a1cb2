"""Pages are at most 110 columns wide, and the gaps of limits.md have numbers."""

import re

from repository import ROOT, text, tracked

COLUMNS = 110
# Scripts write the tables of these pages, with one line for each row.
GENERATED_TABLES = (
    "docs/operators.md",
    "benchmark/results/",
    "torchair-compat/CHECKLIST.md",
    "torchair-compat/NAMES.md",
    "torchair-compat/OPERATORS.md",
    "torchair-compat/README.md",
)


def is_wide(name: str, line: str) -> bool:
    """A link's address may stand beyond the last column."""
    if line.startswith("|") and name.startswith(GENERATED_TABLES):
        return False
    return len(re.sub(r"\]\([^)]*\)", "]", line)) > COLUMNS


def test_pages_are_narrow() -> None:
    problems = [
        f"{path.relative_to(ROOT)}:{number}: {len(line)} columns"
        for path in tracked("*.md")
        for number, line in enumerate(text(path).splitlines(), 1)
        if is_wide(str(path.relative_to(ROOT)), line)
    ]
    assert not problems, "\n".join(problems)


GAPS = ROOT / "docs/limits.md"


def gaps() -> dict[int, str]:
    """The entries of the page of gaps, by their numbers."""
    entries = re.findall(r"^- (.*(?:\n  .*)*)", text(GAPS), re.MULTILINE)
    found = {}
    for entry in entries:
        number = re.match(r'<a id="l(\d+)">L(\d+)</a> ', entry)
        assert number and number[1] == number[2], f"no number: {entry}"
        assert int(number[1]) not in found, f"L{number[1]} is there twice"
        found[int(number[1])] = entry
    return found


def test_gaps_have_numbers_of_their_own() -> None:
    last = re.search(r"The last number given is L(\d+)\.", text(GAPS))
    assert last and max(gaps()) <= int(last[1])


def test_messages_and_pages_name_gaps_that_exist() -> None:
    named = re.compile(r"limits\.md(?:#l|, L)(\d+)")
    files = tracked("*.py", "*.md", "*.cpp", "*.h")
    found = {int(n) for file in files for n in named.findall(text(file))}
    assert found and found <= set(gaps())
    assert "guards" in gaps()[15] and "run through PyTorch" in gaps()[17]
