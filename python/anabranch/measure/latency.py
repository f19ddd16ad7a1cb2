"""Calls functions again and again and measures how long the calls take."""

from __future__ import annotations

import dataclasses
import math
import statistics
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

PERCENTILES = (90, 95, 99)


@dataclasses.dataclass(frozen=True)
class Limits:
    """When a measurement ends: after `seconds`, or after `calls` of all callers
    together, whichever comes first. Before it, each caller makes `warm_up` calls."""

    seconds: float = 10.0
    calls: int | None = None
    warm_up: int = 10


@dataclasses.dataclass(frozen=True)
class Measured:
    """Seconds of each call, and seconds from the begin of the first call to the end of
    the last."""

    calls: list[float]
    seconds: float

    def summary(self) -> dict[str, Any]:
        ordered = [value * 1e3 for value in sorted(self.calls)]
        latency = {
            "min": ordered[0],
            "median": statistics.median(ordered),
            "mean": statistics.fmean(ordered),
            **{f"p{share}": percentile(ordered, share) for share in PERCENTILES},
            "max": ordered[-1],
        }
        return {
            "calls": len(ordered),
            "seconds": self.seconds,
            "latency_ms": latency,
            "calls_per_second": len(ordered) / self.seconds,
        }


def percentile(ordered: Sequence[float], share: float) -> float:
    """The percentile by nearest rank: the smallest value that `share` % of all do not
    exceed."""
    rank = math.ceil(share / 100 * len(ordered))
    return ordered[max(rank, 1) - 1]


def measure(
    callers: Sequence[Callable[[], Any]],
    limits: Limits,
    progress: Callable[[str, int, int], None] | None = None,
    prepare: Callable[[], Any] = lambda: None,
) -> Measured:
    """Calls each of `callers` from a thread of its own, which first calls `prepare`.

    The first exception ends the measurement and is raised. Ctrl-C ends it too: the
    result then has the calls so far; without any, KeyboardInterrupt is raised.
    """
    race = _Race(len(callers), limits, prepare)
    threads = [
        threading.Thread(target=race.run, args=(caller,), daemon=True)
        for caller in callers
    ]
    for thread in threads:
        thread.start()
    try:
        race.ready.wait()
        _watch(race, threads, limits, progress)
    except KeyboardInterrupt:
        race.stop()
        for thread in threads:
            thread.join()
        if not race.spans:
            raise
    except threading.BrokenBarrierError:
        pass
    for thread in threads:
        thread.join()
    if race.problem is not None:
        raise race.problem
    begin = min(start for start, _ in race.spans)
    last = max(stop for _, stop in race.spans)
    return Measured([stop - start for start, stop in race.spans], last - begin)


def _watch(
    race: _Race,
    threads: Sequence[threading.Thread],
    limits: Limits,
    progress: Callable[[str, int, int], None] | None,
) -> None:
    """Waits for the threads, and reports their progress."""
    for thread in threads:
        while thread.is_alive():
            thread.join(0.5)
            if progress is None:
                continue
            if limits.calls is None:
                progress("seconds", int(race.elapsed()), math.ceil(limits.seconds))
            else:
                progress("calls", len(race.spans), limits.calls)


class _Race:
    """The data that the threads of one measurement share. Appending to a list is
    atomic."""

    def __init__(
        self, callers: int, limits: Limits, prepare: Callable[[], Any]
    ) -> None:
        self.limits = limits
        self.prepare = prepare
        self.ready = threading.Barrier(callers + 1)
        self.spans: list[tuple[float, float]] = []
        self.problem: BaseException | None = None
        self._end = False
        self._left = math.inf if limits.calls is None else limits.calls
        self._lock = threading.Lock()
        self._begin = time.perf_counter()

    def elapsed(self) -> float:
        return time.perf_counter() - self._begin

    def stop(self) -> None:
        self._end = True
        self.ready.abort()

    def run(self, caller: Callable[[], Any]) -> None:
        try:
            self.prepare()
            for _ in range(self.limits.warm_up):
                if self._end:
                    return
                caller()
            self.ready.wait()
            self._begin = time.perf_counter()
            while self._may_call():
                start = time.perf_counter()
                caller()
                self.spans.append((start, time.perf_counter()))
        except threading.BrokenBarrierError:
            pass
        except BaseException as problem:  # noqa: BLE001 the main thread raises it
            self.problem = self.problem or problem
            self.stop()

    def _may_call(self) -> bool:
        """Whether the thread may make another call. The first call is always allowed."""
        late = self.spans and self.elapsed() >= self.limits.seconds
        with self._lock:
            self._left -= 1
            return self._left >= 0 and not late and not self._end
