"""One .cpp defines all members of a class."""

import re
from collections import defaultdict
from pathlib import Path

from repository import ROOT, tracked

FOLDERS = ("src/**.cpp", "python/bindings/**.cpp", "tools/**.cpp")
NAME = r"[A-Z]\w*"
# A definition begins at column 0; namespaces are lower case, classes are not.
MEMBER = re.compile(
    rf"^(?:[A-Za-z_].*[\s*&>])?((?:\w+::)*{NAME})::(?:~?\w+|operator.+)\("
)


def namespaces(lines: list[str]) -> str:
    """The named namespaces that a file opens."""
    return "::".join(
        m[1] for line in lines if (m := re.match(r"namespace ([\w:]+) \{", line))
    )


def places() -> dict[str, set[Path]]:
    """For each class, with its namespaces: the files that define its members."""
    found = defaultdict(set)
    for path in tracked(*FOLDERS):
        lines = path.read_text().splitlines()
        space = namespaces(lines)
        for line in lines:
            if "::" in line and (member := MEMBER.match(line)):
                found[f"{space}::{member[1]}"].add(path.relative_to(ROOT))
    return found


def test_no_class_is_in_two_files() -> None:
    found = places()
    assert len(found) > 100, "the pattern no longer finds classes"
    sliced = {
        name: sorted(map(str, paths)) for name, paths in found.items() if len(paths) > 1
    }
    assert not sliced, "their members are in more than one .cpp"
