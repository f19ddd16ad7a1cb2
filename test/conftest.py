"""Which tests run, and in which order: xdist gives each file to a worker, so the last
should be a short one."""

from __future__ import annotations

from collections import Counter

import covering
import pytest

# Seconds of a test, roughly, by which files are ordered.
SLOW, USUAL = 30, 1


def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    covering.leave_out(config, items)
    seconds: Counter[str] = Counter()
    for item in items:
        slow = item.get_closest_marker("slow") is not None
        seconds[str(item.path)] += SLOW if slow else USUAL
    # The sort is stable: tests of a file keep their order.
    items.sort(key=lambda item: (-seconds[str(item.path)], str(item.path)))
