"""Pages are at most 110 columns wide."""

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
