"""In which order files of tests run: xdist gives each file to a worker, so the last should
be a short one."""

from __future__ import annotations

from collections import Counter

import pytest

# Seconds of a test, roughly.
SLOW, USUAL = 30, 1


def longest_first(items: list[pytest.Item]) -> None:
    """Sorts the files. Tests of a file keep their order."""
    seconds: Counter[str] = Counter()
    for item in items:
        slow = item.get_closest_marker("slow") is not None
        seconds[str(item.path)] += SLOW if slow else USUAL
    items.sort(key=lambda item: (-seconds[str(item.path)], str(item.path)))
