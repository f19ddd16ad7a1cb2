"""Tiers are compiled only where they pay, and in the time that calls leave."""

from __future__ import annotations

import io
import math
import os
import random
import threading
import time

import pytest
import torch

import anabranch
from anabranch.packages import package
from anabranch.shapes import ahead, tier_costs, tiers

pytestmark = pytest.mark.tier_costs


class Clock:
    """In the place of the module `time`: a process with two cores."""

    def __init__(self) -> None:
        self.now = self.used = 0.0

    def monotonic(self) -> float:
        return self.now

    def process_time(self) -> float:
        return self.used


@pytest.fixture
def clock(monkeypatch):
    found = Clock()
    monkeypatch.setattr(tier_costs, "time", found)
    monkeypatch.setattr(tier_costs, "idle_seconds", lambda: math.inf)
    monkeypatch.setattr(tier_costs._C, "default_threads", lambda: 2)
    return found


def test_a_shape_pays_after_enough_calls():
    gains = tier_costs.Gains(kernels=20)
    gains.note_symbolic((5,), 0.1)
    assert not gains.pay((5,), 19)
    assert gains.pay((5,), 21)


def test_the_gain_of_a_similar_program_is_expected():
    gains = tier_costs.Gains(kernels=1)
    for sizes, symbolic, special in (((2,), 1e-3, 0.5e-3), ((90,), 0.1, 0.099)):
        gains.note_symbolic(sizes, symbolic)
        for _ in range(tier_costs.CALLS_TO_MEASURE):
            gains.note_special(sizes, special)
    gains.note_symbolic((3,), 1.2e-3)
    gains.note_symbolic((100,), 0.12)
    assert gains.of((3,)) == pytest.approx(0.6e-3)
    assert gains.of((100,)) == pytest.approx(0.0012)


def test_a_program_that_gains_nothing_ends_the_trials():
    gains = tier_costs.Gains(kernels=1)
    gains.note_symbolic((2,), 1e-3)
    for _ in range(tier_costs.CALLS_TO_MEASURE):
        gains.note_special((2,), 1.1e-3)
    gains.note_symbolic((3,), 1e-3)
    assert gains.of((3,)) == 0 and not gains.pay((3,), 10**9)


def test_one_program_is_tried_at_a_time():
    gains = tier_costs.Gains(kernels=1)
    for sizes in ((2,), (3,)):
        gains.note_symbolic(sizes, 1.0)
    assert gains.pay((3,), 9)
    gains.begin_trial((2,))
    assert not gains.pay((3,), 9)
    for _ in range(tier_costs.CALLS_TO_MEASURE):
        gains.note_special((2,), 0.5)
    assert gains.pay((3,), 9)
    gains.begin_trial((3,))  # which does not come again
    for _ in range(tier_costs.CALLS_OF_A_TRIAL):
        assert not gains.pay((2,), 9)
        gains.note_symbolic((2,), 1.0)
    assert gains.pay((2,), 9)


def test_a_program_of_another_size_tells_nothing():
    gains = tier_costs.Gains(kernels=1)
    gains.note_symbolic((90,), 0.1)
    for _ in range(tier_costs.CALLS_TO_MEASURE):
        gains.note_special((90,), 0.1)
    gains.note_symbolic((2,), 1e-3)
    assert gains.of((2,)) == 1e-3 * tier_costs.FIRST_GAIN


def test_busy_cores_leave_their_share_alone(clock):
    budget = tier_costs.Budget()
    clock.now, clock.used = 10.0, 20.0
    assert budget.has(20 * tier_costs.SHARE_OF_CALLS)
    assert not budget.has(0.5)
    clock.now = 10.2  # nobody computes
    assert budget.has(0.7)
    clock.used += 0.4  # by compiling
    budget.spent = 0.4
    assert not budget.has(0.4)


def test_cores_that_others_use_are_not_idle(clock, monkeypatch):
    idle = 1000.0
    monkeypatch.setattr(tier_costs, "idle_seconds", lambda: idle)
    budget = tier_costs.Budget()
    clock.now, clock.used = 10.0, 5.0  # of 20 seconds of two cores
    assert not budget.has(0.2)
    idle += 1
    assert budget.has(1.0) and not budget.has(1.2)
    idle += 100  # of a machine with more cores than this process has
    assert budget.has(15.0) and not budget.has(15.2)


def test_idle_cores_are_counted_where_the_system_does(monkeypatch):
    before = tier_costs.idle_seconds()
    assert 0 < before <= tier_costs.idle_seconds()

    def reads(text):
        opened = lambda *_, **__: io.StringIO(text)
        monkeypatch.setattr(tier_costs, "open", opened, raising=False)
        return tier_costs.idle_seconds()

    ticks = os.sysconf("SC_CLK_TCK")
    assert reads(f"cpu  1 2 3 {4 * ticks} {ticks} 6 7\n") == 5
    assert (
        reads("cpu  0 0 0 0 0 0 0\n")
        == reads("")
        == reads("cpu a b c d e f")
        == math.inf
    )


@pytest.mark.parametrize("seed", range(50))
def test_traffic_is_never_slowed_by_more_than_3_percent(clock, seed):
    """Calls that follow each other without a pause, on all cores, for any costs and
    gains: calls and compilations take at most 1.03 of the calls' symbolic time."""
    pick = random.Random(seed)
    gains, budget = tier_costs.Gains(pick.randint(1, 60)), tier_costs.Budget()
    real_cost = gains.cost * pick.uniform(0.3, 1.5)
    factor = pick.uniform(0.2, 1.2)  # of the time of a symbolic call
    shapes = [(n,) for n in range(1, pick.randint(2, 100))]
    uses: dict[tuple[int, ...], int] = {}
    made: set[tuple[int, ...]] = set()
    dropped: set[tuple[int, ...]] = set()
    alone = 0.0

    def compute(seconds):
        clock.now += seconds
        clock.used += 2 * seconds

    for _ in range(4000):
        sizes = pick.choice(shapes)
        symbolic = 1e-3 * sizes[0]
        alone += symbolic
        seconds = symbolic * factor if sizes in made else symbolic
        compute(seconds)
        if sizes in made:
            gains.note_special(sizes, seconds)
            if gains.is_loss(sizes):
                made.remove(sizes)
                dropped.add(sizes)
            continue
        gains.note_symbolic(sizes, symbolic)
        uses[sizes] = uses.get(sizes, 0) + 1
        if sizes in dropped:
            continue
        if gains.pay(sizes, uses[sizes]) and budget.has(gains.cost):
            compute(real_cost / 2)
            budget.spent += real_cost
            gains.cost = real_cost
            made.add(sizes)
    assert clock.now <= 1.03 * alone


@pytest.fixture
def rest(clock):
    return tier_costs.Rest()


def spend(clock, seconds, cores, rest):
    """`seconds` in which the process uses `cores`, and a thread looks at it as often as
    the product's."""
    end = clock.now + seconds
    while clock.now < end:
        step = min(end - clock.now, ahead.PAUSE)
        clock.now += step
        clock.used += step * cores
        rest.note()


def test_a_pause_of_some_seconds_is_rest(clock, rest):
    spend(clock, 5, 2, rest)
    assert not rest.is_present()
    spend(clock, 1, 0, rest)
    assert not rest.is_present()
    spend(clock, 1, 0, rest)
    assert rest.is_present()


def test_time_that_an_earlier_pause_left_does_not_count(clock, rest):
    spend(clock, 3600, 0, rest)
    spend(clock, 0.5, 1, rest)
    assert not rest.is_present()


def test_a_core_that_others_use_is_no_rest(clock, monkeypatch):
    monkeypatch.setattr(tier_costs, "idle_seconds", lambda: 100.0)
    rest = tier_costs.Rest()
    spend(clock, 60, 0, rest)
    assert not rest.is_present()


@pytest.mark.parametrize("seed", range(50))
def test_nothing_begins_while_calls_take_most_of_the_time(clock, rest, seed):
    """Rounds of traffic with pauses shorter than its calls, and breaks between them. No
    round has a job in it unless it began in the break before; each break of two seconds
    has one; and jobs never follow each other without a break."""
    pick = random.Random(seed)
    cores = pick.choice([1, 1.5, 2])
    for _ in range(6):
        for _ in range(pick.randint(20, 200)):
            call = pick.uniform(0.003, 0.5)
            spend(clock, call, cores, rest)
            assert not rest.is_present()
            spend(clock, min(call, 0.3) * pick.random() * 0.9, 0, rest)
            assert not rest.is_present()
        spend(clock, pick.uniform(2.0, 20.0), 0, rest)
        assert rest.is_present()
        spend(clock, pick.uniform(1.5, 5.0), 1, rest)  # a job
        assert not rest.is_present()


def function(a, b):
    return torch.softmax(a @ b, -1), a.sum(0)


def test_shapes_that_come_a_few_times_are_not_compiled():
    compiled = anabranch.compile(function, shapes="tiered")
    for _ in range(3):
        for rows in range(4, 24):
            compiled(torch.randn(rows, 8), torch.randn(8, 8))
    assert tiers.worker().finish(10)
    assert anabranch.counters.specialised == 0


def test_a_shape_that_pays_is_compiled_when_there_is_time(monkeypatch):
    monkeypatch.setattr(tier_costs, "SECONDS_A_KERNEL", 1e-6)
    times = threading.Event()
    monkeypatch.setattr(tier_costs.Budget, "has", lambda *_: times.is_set())
    compiled = anabranch.compile(function, shapes="tiered")
    for _ in range(10):
        compiled(torch.randn(5, 8), torch.randn(8, 8))
    assert not tiers.worker().finish(0.3)
    assert anabranch.counters.specialised == 0
    times.set()  # without another call
    assert tiers.worker().finish(60)
    assert anabranch.counters.specialised == 1


def test_a_program_of_an_earlier_process_is_read_when_its_shape_comes_again(
    tmp_path, monkeypatch
):
    monkeypatch.delenv("ANABRANCH_CACHE")
    monkeypatch.setenv("ANABRANCH_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(tier_costs.Budget, "has", lambda *_: True)

    def call(rows, *, pays):
        monkeypatch.setattr(tier_costs.Gains, "pay", lambda *_: pays)
        for _ in range(tiers.USES_TO_SEEK):
            compiled(torch.randn(rows, 8), torch.randn(8, 8))
        assert tiers.worker().finish(60)
        return anabranch.counters.specialised

    compiled = anabranch.compile(function, shapes="tiered")
    assert call(5, pays=True) == 1
    torch._dynamo.reset()
    compiled = anabranch.compile(function, shapes="tiered")
    # The worker asks whether a shape pays at any time after its call.
    monkeypatch.setattr(tier_costs.Gains, "pay", lambda *_: False)
    compiled(torch.randn(5, 8), torch.randn(8, 8))
    assert tiers.worker().finish(60)
    assert anabranch.counters.specialised == 1
    monkeypatch.setattr(package, "write", None)  # nothing is compiled
    assert call(6, pays=False) == 1  # which the cache does not have
    assert call(5, pays=False) == 2


def test_the_gain_of_a_made_program_is_measured(monkeypatch):
    monkeypatch.setattr(tier_costs, "SECONDS_A_KERNEL", 1e-6)
    monkeypatch.setattr(tier_costs.Budget, "has", lambda *_: True)
    found = []
    attach = tiers.attach

    def keep(*arguments):
        found.append(attach(*arguments))
        return found[-1]

    monkeypatch.setattr(tiers, "attach", keep)
    compiled = anabranch.compile(function, shapes="tiered")
    arguments = torch.randn(5, 8), torch.randn(8, 8)
    deadline = time.monotonic() + 60
    while not anabranch.counters.specialised and time.monotonic() < deadline:
        compiled(*arguments)
    for _ in range(tier_costs.CALLS_TO_MEASURE + 3):
        compiled(*arguments)
    [one] = found
    [(calls, shortest)] = one.gains.special.values()
    assert calls == tier_costs.CALLS_TO_MEASURE and 0 < shortest < 1
    assert one.gains.cost > 1e-3  # what compiling really took
