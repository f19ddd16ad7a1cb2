"""Loops and branches that update what they get where it lies."""

from __future__ import annotations

import pytest
import torch
from checking import assert_equal, clone, compiled
from torch._higher_order_ops import scan
from torch._higher_order_ops.while_loop import while_loop

import anabranch

CAPACITY, WIDTH = 64, 8


def by_copy(cache, place, row):
    return cache.index_copy(0, place.reshape(1), row)


def by_put(cache, place, row):
    return torch.ops.aten.index_put(cache, [place.reshape(1)], row)


def by_scatter(cache, place, row):
    return cache.scatter(0, place.expand(1, WIDTH), row)


def by_addition(cache, place, row):
    return cache.index_add(0, place.reshape(1), row)


def by_slice(cache, place, row):
    return torch.slice_scatter(cache, row, 0, 3, 4)


def by_nested_parts(cache, place, row):
    inner = torch.select_scatter(cache[2:9], row[0], 0, 4)
    return torch.slice_scatter(cache, inner, 0, 2, 9)


def in_two_steps(cache, place, row):
    return by_copy(by_slice(cache, place, row), place, row * 2)


def of_what_it_reads(cache, place, row):
    """The update needs all of the old value."""
    return by_copy(cache, place, cache.sum(0, keepdim=True))


@torch.library.custom_op("anabranch_test::write_row", mutates_args=("cache",))
def write_row(cache: torch.Tensor, place: torch.Tensor, row: torch.Tensor) -> None:
    cache[int(place)] = row[0]


def by_operator_of_a_user(cache, place, row):
    cache = cache.clone()
    write_row(cache, place, row)
    return cache


CHANGES = [
    by_copy,
    by_put,
    by_scatter,
    by_addition,
    by_slice,
    by_nested_parts,
    in_two_steps,
    by_operator_of_a_user,
    of_what_it_reads,
]
READS = {
    "new": lambda old, new: new.sum(0, keepdim=True),
    "old": lambda old, new: old.sum(0, keepdim=True),
    "both": lambda old, new: (old * new).sum(0, keepdim=True),
    "neither": lambda old, new: torch.ones(1, WIDTH, dtype=old.dtype),
}


def loop(change, read):
    def function(cache, row, trips):
        def body(place, cache, total):
            new = change(cache, place, row * place)
            return place + 1, new, total * 0.5 + read(cache, new)

        begin = (torch.zeros_like(trips), cache, row * 0)
        return while_loop(lambda place, *_: place < trips, body, begin)

    return function


def check(function, numbers, dynamic) -> None:
    """The function of a cache, a row and each of the numbers is one program, equals eager
    and leaves the caller's cache as it is."""
    run = compiled(function, fullgraph=True)
    row = torch.randn(1, WIDTH, dtype=torch.float64)
    cache = torch.randn(CAPACITY, WIDTH, dtype=torch.float64)
    if dynamic:
        torch._dynamo.mark_dynamic(cache, 0)
    for number in numbers:
        arguments = cache, row, torch.tensor(number)
        given = clone(arguments)
        assert_equal(run(*given), function(*arguments))
        assert_equal(given, arguments)
    report = anabranch.last_report()
    assert report is not None and report["parts"] == 1
    assert anabranch.counters.eager_graphs == 0


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("read", READS.values(), ids=READS)
@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_values_equal_eager(change, read, dynamic):
    check(loop(change, read), (0, 1, 2, 7), dynamic)


def arena_bytes(run, *arguments) -> int:
    run(*arguments)
    report = anabranch.last_report()
    assert report is not None and report["parts"] == 1
    return report["arena_bytes"]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_the_program_has_one_memory_for_it(change):
    """The program's output is the memory that trips update."""
    cache = torch.randn(1 << 16, WIDTH)
    run = compiled(loop(change, READS["new"]), fullgraph=True)
    used = arena_bytes(run, cache, torch.randn(1, WIDTH), torch.tensor(3))
    assert used < 0.1 * cache.nbytes


def test_scan_updates_what_it_carries():
    def function(cache, rows, places):
        def step(cache, row):
            place, row = row[0].to(torch.int64), row[1:]
            new = cache.index_copy(0, place.reshape(1), row.reshape(1, -1))
            return new, new.sum(0)

        return scan(step, cache, torch.cat([places[:, None], rows], 1))

    cache = torch.randn(CAPACITY, WIDTH)
    rows, places = torch.randn(5, WIDTH), torch.tensor([3.0, 7.0, 3.0, 0.0, 63.0])
    run = compiled(function, fullgraph=True)
    assert_equal(run(cache, rows, places), function(cache, rows, places))


def test_values_that_a_trip_hands_on():
    """One result is the old value of what another one changes: both have memory."""

    def function(cache, row, trips):
        def body(place, cache, last):
            return place + 1, by_copy(cache, place, row), cache.clone()

        begin = (torch.zeros_like(trips), cache, cache * 0)
        return while_loop(lambda place, *_: place < trips, body, begin)

    cache, row = torch.randn(CAPACITY, WIDTH), torch.randn(1, WIDTH)
    run = compiled(function, fullgraph=True)
    for trips in (0, 1, 2, 5):
        arguments = cache, row, torch.tensor(trips)
        assert_equal(run(*arguments), function(*arguments))


BRANCHES = {
    "one branch": (by_copy, lambda cache, place, row: cache.clone()),
    "both": (by_copy, by_addition),
    "neither": (lambda cache, place, row: cache.clone(),) * 2,
    "a new value": (by_copy, lambda cache, place, row: cache * 2),
    "two steps": (in_two_steps, by_nested_parts),
    "an operator of a user": (by_operator_of_a_user, by_slice),
}


def branching(holds, fails, again):
    def function(cache, row, place):
        def yes(cache, row, place):
            return holds(cache, place, row), row * 2

        def no(cache, row, place):
            return fails(cache, place, row), row + cache[:1]

        new, other = torch.cond(place > 3, yes, no, (cache, row, place))
        return new + cache if again else new, other

    return function


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize(("holds", "fails"), BRANCHES.values(), ids=BRANCHES)
def test_branches(holds, fails, again, dynamic):
    """`again`: the old value is needed behind the branch."""
    check(branching(holds, fails, again), (0, 3, 4, 7), dynamic)


def test_a_branch_writes_the_argument():
    """A cache of the caller that one branch updates: no copy of it."""

    def function(cache, row, place):
        new = torch.cond(
            place > 3,
            lambda c: by_copy(c, place, row),
            lambda c: c.clone(),
            (cache,),
        )
        cache.copy_(new)
        return row + 1

    cache = torch.randn(1 << 14, WIDTH)
    run = compiled(function, fullgraph=True)
    for place in (2, 5):
        expected, given = cache.clone(), cache.clone()
        arguments = torch.randn(1, WIDTH), torch.tensor(place)
        assert_equal(run(given, *arguments), function(expected, *arguments))
        assert_equal(given, expected)
    report = anabranch.last_report()
    assert report is not None and report["arena_bytes"] < 0.1 * cache.nbytes
