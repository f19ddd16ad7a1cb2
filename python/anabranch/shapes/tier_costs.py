"""Whether a program for certain sizes pays: what it would save, what compiling it
costs, and whether calls leave the time for it.

docs/design/shapes.md, "Tiers", has the rule and the reason for each figure."""

from __future__ import annotations

import math
import os
import time

from .. import _C

Sizes = tuple[int, ...]

# Before the first program is measured: it is twice as fast as the symbolic one, as
# programs of few rows are.
FIRST_GAIN = 0.5
# Compiling may take this share of the time that the process computes for others.
SHARE_OF_CALLS = 0.02
# Seconds that a kernel takes to compile, until a program of the graph was compiled.
SECONDS_A_KERNEL = 0.05
# Seconds that reading a program from the cache takes.
SECONDS_TO_SEEK = 0.05
# The process rests if it did so for this share of the last seconds, each of which
# counts the less the longer it is over.
REST = 0.75
SECONDS_OF_REST = 1.0
# Calls of a new program until its time is known; the first touch cold memory.
CALLS_TO_MEASURE = 8
# Calls of the symbolic program after which a shape that got a program is not awaited.
CALLS_OF_A_TRIAL = 1000
# Programs tell of each other if their symbolic times are within this factor.
SIMILAR = 4.0


class Gains:
    """The gain of programs for certain sizes, of one executable: learnt from the calls
    of the symbolic program and of the programs that were made."""

    def __init__(self, kernels: int) -> None:
        self.cost = SECONDS_A_KERNEL * max(kernels, 1)
        self.symbolic: dict[Sizes, float] = {}  # the shortest call, in seconds
        self.special: dict[Sizes, tuple[int, float]] = {}  # calls, and the shortest
        self.newest: Sizes | None = None  # program
        self.calls_since_newest = 0  # of the symbolic program

    def note_symbolic(self, sizes: Sizes, seconds: float) -> None:
        self.symbolic[sizes] = min(seconds, self.symbolic.get(sizes, math.inf))
        self.calls_since_newest += 1

    def begin_trial(self, sizes: Sizes) -> None:
        """Notes that there is a program for these sizes, whose gain is not known."""
        self.newest = sizes
        self.calls_since_newest = 0

    def in_trial(self) -> bool:
        """Whether the gain of the newest program will soon be known."""
        if self.newest is None or self.is_measured(self.newest):
            return False
        return self.calls_since_newest < CALLS_OF_A_TRIAL

    def note_special(self, sizes: Sizes, seconds: float) -> None:
        calls, shortest = self.special.get(sizes, (0, math.inf))
        self.special[sizes] = calls + 1, min(seconds, shortest)

    def is_measured(self, sizes: Sizes) -> bool:
        return self.special.get(sizes, (0, 0.0))[0] >= CALLS_TO_MEASURE

    def is_loss(self, sizes: Sizes) -> bool:
        """Whether the program that was made is not faster than the symbolic one."""
        symbolic = self.symbolic.get(sizes, math.inf)
        return self.is_measured(sizes) and self.special[sizes][1] >= symbolic

    def of(self, sizes: Sizes) -> float:
        """The seconds that a program for these sizes would save in each call. It saves
        the part that the measured program with the most similar time saves."""
        seconds = self.symbolic.get(sizes, 0.0)
        known = [
            (abs(math.log(self.symbolic[other] / seconds)), 1 - shortest / symbolic)
            for other, (_, shortest) in list(self.special.items())
            if self.is_measured(other)
            and seconds
            and (symbolic := self.symbolic.get(other))
        ]
        distance, part = min(known, default=(math.inf, FIRST_GAIN))
        return seconds * max(part if distance <= math.log(SIMILAR) else FIRST_GAIN, 0.0)

    def pay(self, sizes: Sizes, uses: int) -> bool:
        """Whether as many calls as came until now would save what compiling costs: a
        shape is expected to come as often again as it has come. One program is tried at
        a time."""
        return not self.in_trial() and uses * self.of(sizes) >= self.cost


def idle_seconds() -> float:
    """The seconds that CPUs of this machine had nothing to run, all of them together,
    since it started. Infinite where the system does not count them."""
    try:
        with open("/proc/stat", encoding="ascii") as file:
            times = file.readline().split()
        ticks = int(times[4]) + int(times[5])  # idle, and waiting for a disk
    except (OSError, ValueError, IndexError):
        return math.inf
    return ticks / os.sysconf("SC_CLK_TCK") if ticks else math.inf


class Budget:
    """The time that calls and other processes leave to the compiler, since the process
    has tiers."""

    def __init__(self) -> None:
        self.cores = _C.default_threads()
        self.begin = time.monotonic()
        self.used = time.process_time()
        self.idle = idle_seconds()
        self.spent = 0.0  # by compiling

    def has(self, cost: float) -> bool:
        """Whether compiling for so many seconds more takes no more than the time in
        which cores were idle, for this process and others, and a share of the time in
        which calls computed."""
        used = time.process_time() - self.used  # compiling included
        idle = self.cores * (time.monotonic() - self.begin) - used
        if math.isfinite(self.idle):
            idle = min(idle, idle_seconds() - self.idle)
        working = used - self.spent
        return self.spent + cost <= idle + SHARE_OF_CALLS * working


class Rest:
    """Whether the process rests: it computes next to nothing, and the machine has a
    core for it. Time that an earlier pause left does not count: calls that came since
    do not leave it any more."""

    def __init__(self) -> None:
        self.share = 0.0  # of the last seconds
        self._read()

    def _read(self) -> None:
        self.now = time.monotonic()
        self.used = time.process_time()
        self.idle = idle_seconds()

    def note(self) -> None:
        """Takes in the time since the last call of this method."""
        now, used, idle = self.now, self.used, self.idle
        self._read()
        seconds = self.now - now
        if seconds <= 0:
            return
        rested = 1 - (self.used - used) / seconds
        if math.isfinite(idle):
            rested = min(rested, (self.idle - idle) / seconds)
        kept = math.exp(-seconds / SECONDS_OF_REST)
        self.share = kept * self.share + (1 - kept) * min(max(rested, 0.0), 1.0)

    def is_present(self) -> bool:
        return self.share >= REST
