"""Cycles of a trace on an out-of-order core.

Instructions enter in order, six micro-operations in a cycle, while the reorder buffer and
the reservation stations have room. Each starts when its registers are ready and a port is
free, the older ones first. They leave in order. Branches are predicted. A store waits in
the store buffer until its line is in the first-level cache."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from machine_code.caches import Caches, Port
from machine_code.timing import LOADS, TILES, Timing
from machine_code.trace import Trace

# Sapphire Rapids: the first two as LLVM's model has them, and micro-operations that
# leave in a cycle, entries of the store buffer, and cycles from a store to a load of the
# same line.
ENTER, REORDER, STATIONS = 6, 512, 97
LEAVE, STORE_BUFFER, FORWARD = 8, 112, 5
NARROW_LOADS = (*LOADS, "third")


@dataclass
class Cycles:
    """Of a tile, and its products of tile registers. Lines that came from the second
    and the last cache."""

    cycles: float
    products: int
    instructions: int
    from_l2: int = 0
    from_l3: int = 0

    def share(self, of_product: float) -> float:
        return self.products * of_product / self.cycles


class Access(NamedTuple):
    """The lines of memory of an instruction, and the address of a scalar."""

    lines: Sequence[int]
    scalar: int | None = None

    def key(self, line: int) -> int:
        """What a load has in common with the store whose data it reads."""
        return line if self.scalar is None else -self.scalar


NOTHING = Access(())


class Core:
    def __init__(self, caches: Caches | None) -> None:
        self.caches = caches
        self.ports: dict[str, Port] = {}
        self.tiles_free = 0.0
        self.ready: dict[str, float] = {}
        # When the data of a store can be forwarded, and when they are in the cache.
        self.stored: dict[int, tuple[float, float]] = {}
        self.entered = 0.0
        self.buffer: deque[tuple[float, int]] = deque()
        self.in_buffer = 0
        self.stations: list[float] = []
        self.left = 0.0
        self.stores: deque[float] = deque()
        self.drained = 0.0

    def enter(self, one: Timing) -> float:
        """The cycle in which the instruction's micro-operations are in the buffers."""
        now = self.entered + one.uops / ENTER
        while self.buffer and self.in_buffer + one.uops > REORDER:
            left, count = self.buffer.popleft()
            self.in_buffer -= count
            now = max(now, left)
        while self.stations and self.stations[0] <= now:
            heapq.heappop(self.stations)
        while len(self.stations) + len(one.ports) > STATIONS:
            now = max(now, heapq.heappop(self.stations))
        self.entered = now
        return now + 1

    def start(self, ports: tuple[str, ...], busy: float, ready: float) -> float:
        if ports[0] == TILES:
            self.tiles_free = max(self.tiles_free, ready)
            begin = self.tiles_free
            self.tiles_free += busy
            return begin
        cycle = int(-(-ready // 1))
        choices = [self.ports.setdefault(name, Port()) for name in ports]
        begin = -1
        for _ in range(max(1, round(busy))):
            at, port = min(
                ((one.free(cycle), number) for number, one in enumerate(choices)),
            )
            choices[port].take(at)
            begin = max(begin, at)
        return begin

    def when(self, registers: Sequence[str], now: float) -> float:
        """When all of these are ready."""
        for name in registers:
            at = self.ready.get(name, 0.0)
            now = max(now, at)
        return now

    def load(self, one: Timing, access: Access, ready: float) -> float:
        """When the lines are there, beyond the time of a load from the first level."""
        last = ready
        for line in access.lines:
            at = self.start(LOADS if one.loads > 32 else NARROW_LOADS, 1, ready)
            stored, drained = self.stored.get(access.key(line), (0.0, 0.0))
            if at < drained:
                there = max(at, stored)
            elif self.caches:
                there = self.caches.arrives(line, at, one.name == "tileloaddt1")
            else:
                there = at
            last = max(last, there)
        return last

    def store(self, access: Access, done: float) -> None:
        """Stores wait in order, from when they leave on. Until then, loads find their
        data in the store buffer."""
        for line in access.lines:
            left = max(done, self.left)
            there = (
                self.caches.arrives(line, left, stores=True) if self.caches else left
            )
            self.drained = max(self.drained + 1, there)
            self.stores.append(self.drained)
            self.stored[access.key(line)] = done + FORWARD, self.drained
        while len(self.stores) > STORE_BUFFER:
            self.entered = max(self.entered, self.stores.popleft())
        while self.stores and self.stores[0] <= self.entered:
            self.stores.popleft()

    def run(self, one: Timing, access: Access) -> None:
        now = self.enter(one)
        ready = self.when(one.reads, now)
        if one.loads:
            at = self.when(one.address, now)
            plain = 0 if one.of_tile is not None else 5 if one.loads <= 8 else 7
            ready = max(ready, self.load(one, access, at) + plain)
        elif one.fetches and self.caches:
            for line in access.lines:
                if one.name == "prefetcht0":
                    self.caches.arrives(line, ready)
                else:
                    self.caches.fetch(line, ready)
        done = ready
        for ports, busy in one.ports:
            begin = self.start(ports, busy, ready)
            heapq.heappush(self.stations, begin)
            done = max(done, begin)
        done += one.latency
        for name in one.writes:
            self.ready[name] = done
        self.left = max(self.left + one.uops / LEAVE, done)
        self.buffer.append((self.left, one.uops))
        self.in_buffer += one.uops
        if one.stores:
            self.store(access, done)

    def forget(self) -> None:
        """Drops what is too long ago to matter."""
        for port in self.ports.values():
            port.forget(self.left - 2000)
        if self.caches:
            self.caches.forget(self.left - 2000)
        self.stored = {n: at for n, at in self.stored.items() if at[1] > self.left}


def access_of(one: Timing, address: int, stride: int, rows: Sequence[int]) -> Access:
    if one.of_tile is not None:
        return Access(
            [(address + row * stride) >> 6 for row in range(rows[one.of_tile])]
        )
    count = max(one.loads, one.stores)
    if count:
        lines = range(address >> 6, ((address + count - 1) >> 6) + 1)
        return Access(lines, address if count <= 8 else None)
    return Access([address >> 6]) if one.fetches else NOTHING


def simulate(trace: Trace, timings: Sequence[Timing], caches: Caches | None) -> Cycles:
    """The cycles of the trace's last tile, after the others. Without caches every load
    hits the first level."""
    core, rows = Core(caches), trace.tile_rows
    last = trace.begins[-1]
    before, products, lines_before = 0.0, 0, (0, 0)
    for count, (number, address, stride) in enumerate(
        zip(trace.ran, trace.addresses, trace.strides, strict=True)
    ):
        if count == last:
            before, products = max(core.left, core.drained), 0
            lines_before = (caches.from_l2, caches.from_l3) if caches else (0, 0)
        one = timings[number]
        products += one.multiplies_tiles
        core.run(one, access_of(one, address, stride, rows))
        if count % 10000 == 0:
            core.forget()
    end = max(core.left, core.drained)
    found = Cycles(end - before, products, len(trace.ran) - last)
    if caches:
        found.from_l2 = caches.from_l2 - lines_before[0]
        found.from_l3 = caches.from_l3 - lines_before[1]
    return found
