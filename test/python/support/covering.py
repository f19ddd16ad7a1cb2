"""A sample of the combinations of parameters: `make test` runs it, `make test-all` runs all.

A test whose parameters are crossed has many combinations. The sample of such a test has
each value of each parameter, in combinations that change with the commit. A combination
that this machine skips counts like the others. A test with one parameter keeps all, and
so does one with few combinations that is not slow."""

from __future__ import annotations

import os
import random
import re
import subprocess
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    import pytest  # scripts/gtests.py runs without

T = TypeVar("T")
# What a combination has of each parameter.
Values = set[tuple[str, ...]]

# Tests with fewer combinations keep them all, unless they are slow.
FEW = 8
# scripts/test.py asks by it for a sample.
VARIABLE = "ANABRANCH_TESTS"


def asked_for() -> bool:
    return os.environ.get(VARIABLE) == "sample"


def leave_out(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves a sample in `items` if scripts/test.py asks for one."""
    if not asked_for():
        return
    kept = set(sample(items, commit(config.rootpath)))
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = [item for item in items if item in kept]


def sample(items: Sequence[pytest.Item], seed: str) -> Iterator[pytest.Item]:
    tests: dict[str, dict[pytest.Item, Values]] = defaultdict(dict)
    for item in items:
        tests[item.nodeid.partition("[")[0]][item] = values(item)
    for name, combinations in tests.items():
        slow = any(item.get_closest_marker("slow") for item in combinations)
        yield from drawn(combinations, f"{seed} {name}", few=2 if slow else FEW)


def drawn(combinations: Mapping[T, Values], seed: str, few: int = FEW) -> Iterator[T]:
    """The sample of one test."""
    if len(combinations) < few:
        return iter(combinations)
    return covering(combinations, random.Random(seed))


def covering(given: Mapping[T, Values], order: random.Random) -> Iterator[T]:
    """Combinations that have each value of each parameter between them. The next one is
    always one of those with most values that none before it has."""
    left = order.sample(list(given), len(given))
    missing: Values = set().union(*given.values())
    while missing:
        best = max(left, key=lambda item: len(given[item] & missing))
        missing -= given[best]
        yield best


def values(item: pytest.Item) -> Values:
    """What each list of parameters gives to this item. A list of cases, `"a,b"`, gives
    one thing. The items of one test share the objects of its lists."""
    callspec = getattr(item, "callspec", None)
    params = dict(callspec.params) if callspec else {}
    found = set()
    for mark in item.iter_markers("parametrize"):
        names = _names(mark)
        given = [str(id(params.pop(name))) for name in names if name in params]
        found.add((*names, *given))
    # What is left, fixtures give.
    return found | {(name, str(id(value))) for name, value in params.items()}


def _names(mark: pytest.Mark) -> list[str]:
    names = mark.args[0] if mark.args else mark.kwargs["argnames"]
    return re.findall(r"\w+", names) if isinstance(names, str) else list(names)


def commit(folder: Path) -> str:
    """Each worker of one run must find the same."""
    command = ["git", "-C", str(folder), "rev-parse", "HEAD"]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    return found.stdout.strip()
