"""The checker of memory orders gives the known outcomes of litmus tests."""

from __future__ import annotations

import pytest
from weak_memory import Program, Thread, explore, load, store, update


def outcomes(threads: list[Thread], **initial: int) -> set[tuple]:
    seen: set[tuple] = set()

    def record(results: list) -> bool:
        seen.add(tuple(results))
        return True

    assert not explore(Program(threads, initial, record)).problems
    return seen


def writes_then_reads(mine: str, other: str, first: str, second: str) -> Thread:
    def run():
        yield store(mine, 1, first)
        return (yield load(other, second))

    return run


@pytest.mark.parametrize(
    "orders, allowed",
    {
        ("relaxed", "relaxed"): True,
        ("release", "acquire"): True,
        ("seq_cst", "acquire"): True,
        ("seq_cst", "seq_cst"): False,
    }.items(),
)
def test_store_buffering(orders: tuple[str, str], allowed: bool) -> None:
    both = [writes_then_reads("x", "y", *orders), writes_then_reads("y", "x", *orders)]
    assert ((0, 0) in outcomes(both, x=0, y=0)) == allowed


@pytest.mark.parametrize(
    "write, read, allowed",
    [
        ("relaxed", "acquire", True),
        ("release", "relaxed", True),
        ("release", "acquire", False),
    ],
)
def test_message_passing(write: str, read: str, allowed: bool) -> None:
    def sends():
        yield store("data", 1, "relaxed")
        yield store("flag", 1, write)

    def receives():
        flag = yield load("flag", read)
        return flag, (yield load("data", "relaxed"))

    assert ((None, (1, 0)) in outcomes([sends, receives], data=0, flag=0)) == allowed


def test_a_plain_read_without_order_is_a_race() -> None:
    def sends():
        yield store("data", 1)
        yield store("flag", 1, "relaxed")

    def receives():
        if (yield load("flag", "relaxed")):
            yield load("data")

    program = Program([sends, receives], {"data": 0, "flag": 0}, lambda _: True)
    assert set(explore(program).problems) == {"threads 0, 1 race for data"}


@pytest.mark.parametrize(
    "order, allowed", [("relaxed", True), ("acquire", True), ("seq_cst", False)]
)
def test_independent_reads_of_independent_writes(order: str, allowed: bool) -> None:
    wide = "seq_cst" if order == "seq_cst" else "release"

    def writes(place: str) -> Thread:
        def run():
            yield store(place, 1, wide)

        return run

    def reads(first: str, second: str) -> Thread:
        def run():
            one = yield load(first, order)
            return one, (yield load(second, order))

        return run

    threads = [writes("x"), writes("y"), reads("x", "y"), reads("y", "x")]
    found = outcomes(threads, x=0, y=0)
    assert ((None, None, (1, 0), (1, 0)) in found) == allowed


def test_updates_are_atomic_and_carry_a_release_on() -> None:
    def first():
        yield store("data", 1)
        yield update("count", "release", lambda n: n + 1)

    def second():
        return (yield update("count", "relaxed", lambda n: n + 1))

    def last():
        if (yield load("count", "acquire")) == 2:
            yield load("data")

    found = outcomes([first, second, last], data=0, count=0)
    assert {result[1] for result in found} == {0, 1}


def test_reads_of_one_place_agree_on_its_order() -> None:
    def writes():
        yield store("x", 1, "relaxed")
        yield store("x", 2, "relaxed")

    def reads():
        first = yield load("x", "relaxed")
        return first, (yield load("x", "relaxed"))

    seen = {result[1] for result in outcomes([writes, reads], x=0)}
    assert seen == {(a, b) for a in range(3) for b in range(a, 3)}
