"""An embedding server in counted time: tiers pay, and cost a busy server nothing.

The classes are those of the product; the executable and the clock count. The figures
are those of MiniLM-L6 in f32 on two cores: a program for fixed sizes takes half of the
symbolic program's time for few rows, and 0.97 of it for many."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field

import pytest

from anabranch import Config
from anabranch.describe.description import Description
from anabranch.shapes import tier_costs, tiers

pytestmark = pytest.mark.tier_costs

KERNELS = 40
COMPILING = 1.2  # seconds of one core
SYMBOLS = ("s0", "s1")


@dataclass
class Clock:
    """In the place of the module `time`: a process with two cores."""

    now: float = 0.0
    used: float = 0.0

    def monotonic(self) -> float:
        return self.now

    def process_time(self) -> float:
        return self.used

    def compute(self, seconds: float, cores: int = 2) -> None:
        self.now += seconds
        self.used += cores * seconds


def symbolic_time(rows: int, length: int) -> float:
    return 1.0e-3 + 4.6e-5 * rows * length


def gain(rows: int, length: int) -> float:
    """The part of the symbolic program's time that fixed sizes save."""
    return 0.03 + 0.45 * math.exp(-rows * length / 48)


@dataclass
class Tensor:
    shape: tuple[int, ...]


@dataclass(eq=False)
class Program:
    sizes: tuple[int, ...]
    last_use: int = 0
    cached_bytes: int = 1


@dataclass(eq=False)
class Executable:
    """What `Tiers` asks of an executable."""

    kernels: int = KERNELS
    made: dict[tuple[int, ...], Program] = field(default_factory=dict)
    watches_all: bool = False

    def add(self, program: Program) -> None:
        self.made[program.sizes] = program

    def remove(self, program: Program) -> None:
        del self.made[program.sizes]

    def watch(self, watcher: object, *, all: bool = False) -> None:
        self.watches_all = all


class Server:
    """Answers requests one after the other, and compiles between two of them."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.executable = Executable()
        self.tiers = tiers.Tiers(
            self.executable, DESCRIBED, Config(shapes="tiered"), self.build
        )
        self.compiled = 0

    def build(self, described, config, path, binding, like):
        # The thread shares the cores with calls that use both.
        self.clock.compute(COMPILING / 2)
        self.compiled += 1
        return Program(tuple(binding[symbol] for symbol in SYMBOLS))

    def answer(self, sizes: tuple[int, int]) -> float:
        """The seconds of the call."""
        seconds, program = symbolic_time(*sizes), self.executable.made.get(sizes)
        if program:
            seconds *= 1 - gain(*sizes)
        self.clock.compute(seconds)
        if program is None or self.executable.watches_all:
            self.tiers((Tensor(sizes),), seconds, program is not None)
        if job := tiers.worker().due():
            tiers.worker().run(job)
        return seconds


DESCRIBED = Description(
    graph={
        "name": "minilm",
        "inputs": [{"shape": list(SYMBOLS)}],
        "symbols": [{"name": symbol} for symbol in SYMBOLS],
    },
    constants={},
    arguments=1,
    passed=[0],
    copied=[],
    views=[],
    aliases=[],
)


@pytest.fixture
def server(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(tier_costs, "time", clock)
    monkeypatch.setattr(tier_costs, "idle_seconds", lambda: math.inf)
    monkeypatch.setattr(tiers, "time", clock)
    monkeypatch.setattr(tier_costs._C, "default_threads", lambda: 2)
    worker = tiers.Worker()
    # Calls compile between them, and no thread does.
    monkeypatch.setattr(worker, "thread", object())
    monkeypatch.setattr(tiers, "_worker", worker)
    return Server(clock)


def batches(count: int, rows: int, shortest: int, longest: int, seed: int):
    pick = random.Random(seed)
    return [
        (pick.randint(1, rows), pick.randint(shortest, longest)) for _ in range(count)
    ]


@pytest.mark.parametrize("seed", range(8))
def test_a_busy_server_is_as_fast_as_with_the_symbolic_program(server, seed):
    """60 batches of 1 to 16 sentences of 5 to 120 tokens, three rounds."""
    requests = 3 * batches(60, 16, 5, 120, seed)
    for sizes in requests:
        server.answer(sizes)
    assert server.clock.now <= 1.03 * sum(symbolic_time(*sizes) for sizes in requests)


def test_a_server_that_runs_for_long_compiles_what_pays(server):
    """Two lengths of a single sentence without a pause: programs come when 2 % of the
    time has paid for them, and pay for themselves."""
    requests = [(1, 8), (1, 14)]
    symbolic = sum(symbolic_time(*sizes) for sizes in requests)
    rounds, alone = 30_000, 0.0
    for _ in range(rounds):
        for sizes in requests:
            server.answer(sizes)
        if server.compiled < 2:
            alone += symbolic
            assert server.clock.now <= 1.03 * alone
    assert server.compiled == 2
    assert sum(map(server.answer, requests)) < 0.7 * symbolic
    assert server.clock.now < 0.95 * rounds * symbolic


def test_a_server_that_waits_compiles_small_shapes_in_its_pauses(server):
    """Time between requests is free; large batches still wait until they would pay."""
    small, large = (1, 12), (16, 120)
    for _ in range(2000):
        for sizes in (small, large):
            server.answer(sizes)
            server.clock.now += 0.2
    assert small in server.executable.made
    assert server.compiled <= 2
    assert server.answer(small) < 0.7 * symbolic_time(*small)


def test_a_program_that_gains_little_ends_the_trials(server):
    """Once one large batch is measured, others need as many calls as its gain says."""
    requests = [(16, length) for length in range(100, 120)]
    for _ in range(60):
        for sizes in requests:
            server.answer(sizes)
            server.clock.now += 1.0
    assert server.compiled <= 2


def test_a_cache_that_has_no_program_is_soon_left_alone(server):
    asked = []
    server.tiers.find = lambda *arguments: asked.append(arguments)
    for sizes in 3 * batches(60, 16, 5, 120, 0):
        server.answer(sizes)
    assert len(asked) == tiers.MOST_MISSES


def test_programs_that_the_cache_has_are_taken_without_paying(server):
    def find(described, config, binding, like):
        return Program(tuple(binding[symbol] for symbol in SYMBOLS))

    server.tiers.find = find
    for sizes in 3 * batches(20, 16, 5, 120, 0):
        server.answer(sizes)
    assert server.compiled == 0 and len(server.executable.made) >= 8
