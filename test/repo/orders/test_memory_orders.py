"""The memory orders of docs/design/runtime.md suffice, and weaker ones do not."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from protocols import ALL
from weak_memory import explore

WEAKER = {
    "seq_cst": ("acq_rel",),
    "acq_rel": ("acquire", "release"),
    "acquire": ("relaxed",),
    "release": ("relaxed",),
}


def orders_of(name: str) -> dict[str, str]:
    return {site: where.order() for site, where in ALL[name].sites.items()}


def weakened() -> Iterator[tuple[str, str, str]]:
    """Each protocol, each site, and each order that is a step weaker."""
    for name in ALL:
        for site, order in orders_of(name).items():
            for weaker in WEAKER.get(order, ()):
                yield name, site, weaker


@pytest.mark.parametrize("name", ALL)
def test_orders_suffice(name: str) -> None:
    found = explore(ALL[name].program(orders_of(name)))
    assert not found.problems
    assert found.executions > 1


@pytest.mark.parametrize("name, site, weaker", list(weakened()))
def test_weaker_orders_do_not(name: str, site: str, weaker: str) -> None:
    """Without the order there is a race, a lost wake-up or a job that is over."""
    orders = {**orders_of(name), site: weaker}
    is_spare = f"{site} -> {weaker}" in ALL[name].spare
    assert is_spare != bool(explore(ALL[name].program(orders)).problems)


def test_spare_orders_are_those_of_the_sources() -> None:
    known = {(name, f"{site} -> {weaker}") for name, site, weaker in weakened()}
    assert {(name, one) for name in ALL for one in ALL[name].spare} <= known
