"""The memory orders that the runtime's sources name."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from repository import ROOT


@dataclass(frozen=True)
class Site:
    """An atomic operation of a source, with ORDER in the place of its order and ANY in
    that of another one. Spaces and comments do not count."""

    file: str
    text: str

    def order(self) -> str:
        """The operation's order. Where it occurs several times, all have the same."""
        pattern = re.escape(_squeezed(self.text))
        pattern = pattern.replace("ORDER", r"std::memory_order_(\w+)")
        pattern = pattern.replace("ANY", r"std::memory_order_\w+")
        found = set(re.findall(pattern, _source(self.file)))
        assert len(found) == 1, f"src/{self.file}: {self.text}: {found or 'not there'}"
        return found.pop()


def _squeezed(text: str) -> str:
    return re.sub(r"\s+", "", text)


@cache
def _source(file: str) -> str:
    text = (ROOT / "src" / file).read_text()
    return _squeezed(re.sub(r"//.*", "", text))
