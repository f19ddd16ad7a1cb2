"""The caches of a core, in cycles: which holds a line, and when it arrives.

Both levels replace the line that was used least recently. The last cache holds
everything. Hardware prefetchers and pages are left out."""

from __future__ import annotations

import heapq
import math
from collections import OrderedDict
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Figures:
    """Of Sapphire Rapids: sizes as in src/machine/processor/IntelCpus.h, and the bytes
    that arrive in a cycle. `l2_wait` and `l3_wait` are cycles beyond a hit in the first
    level."""

    l1_sets: int = 64
    l1_ways: int = 12
    l2_sets: int = 2048
    l2_ways: int = 16
    l2_bytes: float = 48
    l3_bytes: float = 8
    l2_wait: float = 10
    l3_wait: float = 65
    fills: int = 16  # lines that the first level waits for at once


LINE = 64


class Port:
    """The cycles in which a unit is free. Later users fill gaps."""

    def __init__(self) -> None:
        self.next: dict[int, int] = {}

    def free(self, cycle: int) -> int:
        found = cycle
        while found in self.next:
            found = self.next[found]
        while cycle in self.next and self.next[cycle] != found:
            self.next[cycle], cycle = found, self.next[cycle]
        return found

    def take(self, cycle: int) -> None:
        self.next[cycle] = cycle + 1

    def forget(self, before: float) -> None:
        self.next = {at: after for at, after in self.next.items() if after > before}


class Bus:
    """What brings lines, so many bytes in a cycle."""

    def __init__(self, bytes_a_cycle: float) -> None:
        self.cycles, self.port = LINE / bytes_a_cycle, Port()

    def bring(self, now: float) -> float:
        slot = self.port.free(math.ceil(now / self.cycles))
        self.port.take(slot)
        return slot * self.cycles

    def forget(self, before: float) -> None:
        self.port.forget(before / self.cycles)


class Level:
    def __init__(self, sets: int, ways: int) -> None:
        self.ways = ways
        self.sets: list[OrderedDict[int, float]] = [OrderedDict() for _ in range(sets)]

    def find(self, line: int) -> float | None:
        """When the line is here; None if it is not."""
        lines = self.sets[line % len(self.sets)]
        ready = lines.get(line)
        if ready is not None:
            lines.move_to_end(line)
        return ready

    def put(self, line: int, ready: float, streams: bool = False) -> None:
        lines = self.sets[line % len(self.sets)]
        lines[line] = ready
        if streams:
            lines.move_to_end(line, last=False)
        if len(lines) > self.ways:
            # A line that streams is the next one to go.
            first = next(iter(lines))
            if first == line and streams:
                first = next(one for one in lines if one != line)
            del lines[first]


@dataclass
class Caches:
    figures: Figures = field(default_factory=Figures)

    def __post_init__(self) -> None:
        f = self.figures
        self.l1, self.l2 = Level(f.l1_sets, f.l1_ways), Level(f.l2_sets, f.l2_ways)
        self.from_second, self.from_last = Bus(f.l2_bytes), Bus(f.l3_bytes)
        # The lines that loads, and those that stores wait for.
        self.waiting: tuple[list[float], list[float]] = ([], [])
        self.from_l2 = self.from_l3 = 0

    def second(self, line: int, now: float) -> float:
        """When the second level has the line."""
        ready = self.l2.find(line)
        if ready is not None:
            return max(ready, now)
        self.from_l3 += 1
        ready = self.from_last.bring(now + self.figures.l3_wait)
        self.l2.put(line, ready)
        return ready

    def arrives(
        self, line: int, now: float, streams: bool = False, stores: bool = False
    ) -> float:
        """When the first level has the line, if it is asked for now."""
        ready = self.l1.find(line)
        if ready is not None:
            return max(ready, now)
        waiting = self.waiting[stores]
        while waiting and waiting[0] <= now:
            heapq.heappop(waiting)
        if len(waiting) >= self.figures.fills:
            now = max(now, heapq.heappop(waiting))
        self.from_l2 += 1
        there = self.second(line, now)
        ready = self.from_second.bring(there + self.figures.l2_wait)
        heapq.heappush(waiting, ready)
        self.l1.put(line, ready, streams)
        return ready

    def fetch(self, line: int, now: float) -> None:
        """A prefetch into the second level."""
        self.second(line, now)

    def forget(self, before: float) -> None:
        self.from_second.forget(before)
        self.from_last.forget(before)
