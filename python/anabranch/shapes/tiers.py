"""Compiles static programs in the background: a new shape runs at once in the symbolic
program, while a thread compiles a program for its sizes.

The policy, for one executable:

- A shape gets a program where it pays (tier_costs.py): as many calls as came save what
  compiling costs, and calls leave the time for it. That which saves most is next.
- A shape that comes USES_TO_SEEK times gets the program that the cache has for it.
- Once there are `tier_limit` programs, or `tier_bytes` of them, a shape must come
  USES_WHEN_FULL times, and replaces the program that was used least recently.
- A call notes its shape in time linear in the programs, and never waits. Choosing also
  looks at all shapes counted, of which there are at most MOST_SHAPES_COUNTED.

One thread serves the process. It holds executables weakly, and a forked child starts it
again. docs/design/shapes.md."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import os
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from .. import _C, scratch
from ..config import Config
from ..describe.description import Description
from ..report import count, say
from .gears import Binding
from .tier_costs import SECONDS_TO_SEEK, Budget, Gains, Sizes

Like = Callable[[], _C.Executable | None]
Compiler = Callable[[Description, Config, str, Binding, Like], _C.Executable]
# Reads a program from the cache; None if it is not there.
Finder = Callable[[Description, Config, Binding, Like], _C.Executable | None]

# How often a shape must come before it may replace another one.
USES_WHEN_FULL = 8
USES_TO_SEEK = 2
# After so many shapes in turn that the cache does not have, no more are sought.
MOST_MISSES = 4
MOST_SHAPES_COUNTED = 4096
# How often the thread looks whether calls have left time, in seconds.
PAUSE = 0.1


class Weights(Protocol):
    """Frozen weights that may change (packages/frozen.py)."""

    weights: _C.FrozenWeights  # the weights that the executable has
    lock: threading.Lock  # held while weights are replaced
    forget: Callable[[], object]  # called after weights were replaced

    def current(self) -> tuple[Description, _C.FrozenWeights]:
        """The graph with the current values of the weights."""


class Tiers:
    """The shapes of one executable: how often each came, and which have a program. The
    executable calls it as its watcher and owns it."""

    def __init__(
        self,
        executable: _C.Executable,
        described: Description,
        config: Config,
        build: Compiler,
        weights: Weights | None = None,
        find: Finder | None = None,
    ) -> None:
        self.executable = weakref.ref(executable)
        # Weights that may change are read anew for each program, and no reference to
        # them is kept.
        own = {} if weights is not None else described.constants
        self.described = dataclasses.replace(described, constants=own)
        self.weights = weights
        self.config = config
        self.build = build
        self.find = find
        self.places = _places(described)
        self.uses: dict[Sizes, int] = {}  # calls in the symbolic program, by shape
        self.members: dict[Sizes, _C.Executable] = {}
        self.failures: dict[Sizes, str] = {}
        self.expected: set[Sizes] = set()  # had a program in another process
        self.sought: set[Sizes] = set()  # in the cache
        self.seconds_to_seek = SECONDS_TO_SEEK
        self.misses = 0  # since the last shape that the cache had
        self.gains = Gains(executable.kernels)
        self.busy: Sizes | None = None
        if weights is not None:
            this = weakref.ref(self)
            weights.forget = lambda: _forget(this())

    def __call__(
        self, arguments: Sequence[Any], seconds: float, has_program: bool
    ) -> None:
        """Notes a call that ran in the symbolic program, or in a program whose gain is
        not known yet."""
        sizes = tuple(
            arguments[position] if dim is None else arguments[position].shape[dim]
            for position, dim in self.places.values()
        )
        if has_program:
            self._measure(sizes, seconds)
            return
        uses = self.uses.get(sizes, 0) + 1
        if uses > 1 or len(self.uses) < MOST_SHAPES_COUNTED:
            self.uses[sizes] = uses
            self.gains.note_symbolic(sizes, seconds)
        if self.wants(sizes):
            worker().notice(self)

    def _measure(self, sizes: Sizes, seconds: float) -> None:
        """Notes a call that ran in a program of its sizes. A program that is no faster than
        the symbolic one goes. Once all are measured, calls of them are not told."""
        self.gains.note_special(sizes, seconds)
        executable = self.executable()
        if executable is None:
            return
        if self.gains.is_loss(sizes) and (made := self.members.pop(sizes, None)):
            self.failures[sizes] = "no faster than the symbolic program"
            executable.remove(made)
        if all(map(self.gains.is_measured, list(self.members))):
            executable.watch(self)

    def wants(self, sizes: Sizes) -> bool:
        if sizes in self.failures or sizes in self.members or sizes == self.busy:
            return False
        uses = self.uses.get(sizes, 0)
        if len(self.members) >= self.config.tier_limit and uses < USES_WHEN_FULL:
            return False
        expected = sizes in self.expected or self.seeks(sizes)
        return expected or self.gains.pay(sizes, uses)

    def seeks(self, sizes: Sizes) -> bool:
        """Whether the cache may have a program for these sizes."""
        if self.find is None or self.misses >= MOST_MISSES or sizes in self.sought:
            return False
        return self.uses.get(sizes, 0) >= USES_TO_SEEK

    def cost(self, sizes: Sizes) -> float:
        """The seconds that a program is expected to take."""
        return self.seconds_to_seek if self.seeks(sizes) else self.gains.cost

    def next(self) -> Sizes | None:
        """The shape without a program that would save most."""
        wanted = [sizes for sizes in list(self.uses) if self.wants(sizes)]
        return max(wanted, key=self.saves, default=None)

    def saves(self, sizes: Sizes) -> float:
        """The seconds that a program is expected to save. One from the cache costs so
        little that it comes first."""
        if self.seeks(sizes):
            return math.inf
        return self.uses.get(sizes, 0) * self.gains.of(sizes)

    def compile(self, sizes: Sizes) -> float:
        """Adds a program, on the worker's thread: from the cache, or compiled. Its errors
        never reach a call. Returns the seconds that it took."""
        self.busy = sizes
        begin = time.monotonic()
        seeks = self.seeks(sizes)
        self.sought.add(sizes)
        try:
            known = self.weights.weights if self.weights else None
            made = self._make(sizes, seeks)
            if seeks:
                self.misses = self.misses + 1 if made is None else 0
            if made is not None and (executable := self.executable()) is not None:
                with self.weights.lock if self.weights else contextlib.nullcontext():
                    if known is None or self._are_still(known):
                        self._add(executable, sizes, made)
                    else:
                        self.uses.pop(sizes, None)  # until the shape comes again
        except Exception as error:  # noqa: BLE001 - kept for `explain`
            self.failures[sizes] = str(error)
            binding = dict(zip(self.places, sizes))
            self._explain(f"no program for the sizes {binding}: {error}")
        finally:
            self.busy = None
        took = time.monotonic() - begin
        if seeks:
            self.seconds_to_seek = took
        else:
            self.gains.cost = took
        return took

    def _make(self, sizes: Sizes, seeks: bool) -> _C.Executable | None:
        described = self.weights.current()[0] if self.weights else self.described
        binding = dict(zip(self.places, sizes))
        if seeks:
            assert self.find is not None
            return self.find(described, self.config, binding, self.executable)
        with scratch.folder() as folder:
            path = os.path.join(folder, "package")
            return self.build(described, self.config, path, binding, self.executable)

    def _are_still(self, known: _C.FrozenWeights) -> bool:
        """Whether the executable still has these weights, and they were not written
        to."""
        assert self.weights is not None
        return self.weights.weights is known and known.unchanged()

    def _add(
        self, executable: _C.Executable, sizes: Sizes, made: _C.Executable
    ) -> None:
        self.gains.begin_trial(sizes)
        executable.add(made)
        self.members[sizes] = made
        executable.watch(self, all=True)
        count(specialised=1)
        while len(self.members) > 1 and self._is_over():
            oldest = min(self.members, key=lambda s: self._age(s, sizes))
            executable.remove(self.members.pop(oldest))
            self.uses.pop(oldest, None)
            self._explain(f"the program for the sizes {list(oldest)} made room")

    def _age(self, sizes: Sizes, newest: Sizes) -> tuple[bool, int]:
        return sizes == newest, self.members[sizes].last_use

    def _is_over(self) -> bool:
        kept = sum(member.cached_bytes for member in self.members.values())
        return (
            len(self.members) > self.config.tier_limit or kept > self.config.tier_bytes
        )

    def _explain(self, text: str) -> None:
        if self.config.explain:
            say(f"{self.described.graph['name']}: {text}")

    def hot(self) -> list[Binding]:
        """The bindings that have a program, most recently used first. A cache records
        them."""
        order = sorted(self.members, key=lambda s: -self.members[s].last_use)
        return [dict(zip(self.places, sizes)) for sizes in order]

    def expect(self, bindings: Sequence[Binding]) -> None:
        """Compiles these bindings before their shapes come. A cache recorded them."""
        for binding in bindings:
            if binding.keys() == self.places.keys():
                sizes = tuple(binding[symbol] for symbol in self.places)
                self.uses.setdefault(sizes, 1)
                self.expected.add(sizes)
        worker().notice(self)


def _forget(tiers: Tiers | None) -> None:
    """Forgets the programs, which hold old weights. Shapes that come get new ones."""
    if tiers is not None:
        tiers.members.clear()
        tiers.uses.clear()
        tiers.sought.clear()


def _places(described: Description) -> dict[str, tuple[int, int | None]]:
    """For each symbol, an argument that equals it or has it as a size."""
    found: dict[str, tuple[int, int | None]] = {}
    passed = [entry for entry in described.graph["inputs"] if "constant" not in entry]
    for entry, position in zip(passed, described.passed):
        if isinstance(entry.get("expr"), str):
            found.setdefault(entry["expr"], (position, None))
        for dim, size in enumerate(entry.get("shape", ())):
            if isinstance(size, str):
                found.setdefault(size, (position, dim))
    wanted = {symbol["name"] for symbol in described.graph["symbols"]}
    return {symbol: place for symbol, place in found.items() if symbol in wanted}


def attach(
    executable: _C.Executable,
    described: Description,
    config: Config,
    build: Compiler,
    weights: Weights | None = None,
    find: Finder | None = None,
) -> Tiers | None:
    """Makes an executable get programs for the shapes that come. `weights` follows
    frozen weights that may change."""
    tiers = Tiers(executable, described, config, build, weights, find)
    if not tiers.places:
        return None
    executable.watch(tiers)
    return tiers


class Worker:
    """The thread that compiles, and its queue."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.noticed: weakref.WeakSet[Tiers] = weakref.WeakSet()
        self.thread: threading.Thread | None = None
        self.idle = True
        self.budget = Budget()

    def notice(self, tiers: Tiers) -> None:
        """Notes that an executable has work. A call must not wait: if the worker holds
        the lock, the next call of the shape tries again."""
        if not self.changed.acquire(blocking=False):
            return
        try:
            self.noticed.add(tiers)
            self.idle = False
            if self.thread is None:
                self.thread = threading.Thread(
                    target=self._run, name="anabranch-tiers", daemon=True
                )
                self.thread.start()
            self.changed.notify_all()
        finally:
            self.changed.release()

    def finish(self, timeout: float) -> bool:
        """Waits until nothing is left to compile."""
        with self.changed:
            return self.changed.wait_for(lambda: self.idle, timeout)

    def _run(self) -> None:
        with contextlib.suppress(OSError, AttributeError):
            # Threads that the compiler starts inherit the low priority.
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 19)
        while True:
            with self.changed:
                job = self._wait_for_job()
            self.run(job)
            # While the thread waits, it keeps no object of a graph alive.
            del job

    def run(self, job: tuple[Tiers, Sizes]) -> None:
        tiers, sizes = job
        self.budget.spent += tiers.compile(sizes)

    def _wait_for_job(self) -> tuple[Tiers, Sizes]:
        """Waits until a program pays and calls have left the time for it."""
        while True:
            job = self.due()
            if job is not None:
                return job
            self.changed.notify_all()
            self.changed.wait(None if self.idle else PAUSE)

    def due(self) -> tuple[Tiers, Sizes] | None:
        """The program that saves most, if calls left the time for it."""
        job = self._choose()
        self.idle = job is None
        return job if job and self.budget.has(job[0].cost(job[1])) else None

    def _choose(self) -> tuple[Tiers, Sizes] | None:
        best: tuple[Tiers, Sizes] | None = None
        for tiers in list(self.noticed):
            sizes = tiers.next()
            if sizes is None:
                self.noticed.discard(tiers)
            elif best is None or tiers.saves(sizes) > best[0].saves(best[1]):
                best = tiers, sizes
        return best


_worker = Worker()


def worker() -> Worker:
    return _worker


def _start_anew() -> None:
    """Starts anew in a forked child, which has none of its parent's threads."""
    global _worker
    _worker = Worker()


os.register_at_fork(after_in_child=_start_anew)
