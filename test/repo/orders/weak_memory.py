"""All executions of a small program that C++'s memory model allows.

The model is RC11 ("Repairing Sequential Consistency in C/C++11", Lahav et al., PLDI 2017)
without fences: executions are graphs of events, and each read names the write that it
reads. RC11 forbids cycles of program order and reads-from, so a graph can be built event
by event; one that is inconsistent stays so when it grows.

A thread is a generator that yields operations and is sent what they read."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

Value = Any
PLAIN = "plain"
ACQUIRE = frozenset({"acquire", "acq_rel", "seq_cst"})
RELEASE = frozenset({"release", "acq_rel", "seq_cst"})


@dataclass(frozen=True)
class Operation:
    """`change` gives what a write stores, from the value that it replaces; None if it
    stores nothing. `awaits` says which values end a loop that reads until one comes."""

    place: str
    order: str
    reads: bool = False
    change: Callable[[Value], Value] | None = None
    failing: str = "relaxed"
    awaits: Callable[[Value], bool] | None = None


def load(place: str, order: str = PLAIN) -> Operation:
    return Operation(place, order, reads=True)


def await_(place: str, order: str, condition: Callable[[Value], bool]) -> Operation:
    return Operation(place, order, reads=True, awaits=condition)


def store(place: str, value: Value, order: str = PLAIN) -> Operation:
    return Operation(place, order, change=lambda _: value)


def update(place: str, order: str, change: Callable[[Value], Value]) -> Operation:
    return Operation(place, order, reads=True, change=change)


def exchange(
    place: str, order: str, expected: Value, value: Value, failing: str | None = None
) -> Operation:
    """compare_exchange_strong. Its failure's order follows from `order` as in C++."""
    weaker = {"acq_rel": "acquire", "release": "relaxed"}
    return Operation(
        *(place, order, True),
        change=lambda now: value if now == expected else None,
        failing=failing or weaker.get(order, order),
    )


Thread = Callable[[], Generator[Operation, Value, Value]]


@dataclass(frozen=True)
class Event:
    thread: int  # -1: the initial value
    place: str
    order: str
    source: int | None = None  # the event that it reads
    read: Value = None
    writes: bool = False
    written: Value = None


@dataclass(frozen=True)
class Graph:
    events: tuple[Event, ...]
    modifications: dict[str, tuple[int, ...]]  # the writes of each place, in order

    def key(self) -> object:
        """Equal for graphs that differ only in when events were added."""
        names: list[object] = []
        counts: dict[int, int] = {}
        for event in self.events:
            number = counts[event.thread] = counts.get(event.thread, -1) + 1
            names.append((event.thread, number))
        reads = frozenset(
            (name, None if event.source is None else names[event.source])
            for name, event in zip(names, self.events, strict=True)
        )
        writes = tuple(
            (place, tuple(names[one] for one in order))
            for place, order in sorted(self.modifications.items())
        )
        return reads, writes


def bits(row: int) -> Iterator[int]:
    while row:
        lowest = row & -row
        yield lowest.bit_length() - 1
        row ^= lowest


def closure(rows: list[int]) -> list[int]:
    """The transitive closure of a relation; bit b of row a: a is before b."""
    rows = list(rows)
    for middle in range(len(rows)):
        for first in range(len(rows)):
            if rows[first] >> middle & 1:
                rows[first] |= rows[middle]
    return rows


class Relations:
    """What holds between the events of a graph."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.events = graph.events
        self.count = len(graph.events)
        self.program = self._program_order()
        self.happens = closure(
            [a | b for a, b in zip(self.program, self._synchronises(), strict=True)]
        )
        self.modified, self.from_read = self._modification_orders()
        reads = [0] * self.count
        for number, event in enumerate(self.events):
            if event.source is not None:
                reads[event.source] |= 1 << number
        self.communication = closure(
            [
                a | b | c
                for a, b, c in zip(reads, self.modified, self.from_read, strict=True)
            ]
        )

    def _program_order(self) -> list[int]:
        rows = [0] * self.count
        for first, a in enumerate(self.events):
            for second in range(first + 1, self.count):
                if a.thread in (-1, self.events[second].thread) and (
                    self.events[second].thread != -1
                ):
                    rows[first] |= 1 << second
        return rows

    def _synchronises(self) -> list[int]:
        """From a release to each acquire that reads it or an update after it."""
        rows = [0] * self.count
        for number, event in enumerate(self.events):
            if event.source is None or event.order not in ACQUIRE:
                continue
            at: int | None = event.source
            while at is not None and self.events[at].order != PLAIN:
                if self.events[at].order in RELEASE:
                    rows[at] |= 1 << number
                at = self.events[at].source
        return rows

    def _modification_orders(self) -> tuple[list[int], list[int]]:
        later, after_read = [0] * self.count, [0] * self.count
        for order in self.graph.modifications.values():
            for at, write in enumerate(order):
                for other in order[at + 1 :]:
                    later[write] |= 1 << other
        for number, event in enumerate(self.events):
            if event.source is not None:
                after_read[number] = later[event.source] & ~(1 << number)
        return later, after_read

    def is_consistent(self) -> bool:
        return self._is_coherent() and self._is_atomic() and self._agrees_on_seq_cst()

    def _is_coherent(self) -> bool:
        return not any(
            row >> first & 1
            or any(self.communication[b] >> first & 1 for b in bits(row))
            for first, row in enumerate(self.happens)
        )

    def _is_atomic(self) -> bool:
        """An update comes at once after the write that it reads."""
        for order in self.graph.modifications.values():
            for before, after in pairwise(order):
                event = self.events[after]
                if event.source not in (None, before):
                    return False
        return True

    def _agrees_on_seq_cst(self) -> bool:
        """RC11's psc without fences: scb between sequentially consistent events has no
        cycle."""
        those = [n for n, event in enumerate(self.events) if event.order == "seq_cst"]
        if len(those) < 2:
            return True
        mask = sum(1 << n for n in those)
        away = [
            sum(1 << b for b in bits(row) if self._differ(a, b))
            for a, row in enumerate(self.program)
        ]
        rows = [0] * self.count
        for a in those:
            row = self.program[a] | self.modified[a] | self.from_read[a]
            row |= sum(1 << b for b in bits(self.happens[a]) if not self._differ(a, b))
            for b in bits(away[a]):
                for c in bits(self.happens[b]):
                    row |= away[c]
            rows[a] = row & mask
        return not any(row >> n & 1 for n, row in enumerate(closure(rows)))

    def _differ(self, a: int, b: int) -> bool:
        return self.events[a].place != self.events[b].place

    def races(self) -> list[str]:
        """Two accesses of one place that are not ordered, one of them a plain one, and one
        of them a write."""
        found = []
        for first, a in enumerate(self.events):
            for second in range(first + 1, self.count):
                b = self.events[second]
                if (
                    a.place == b.place
                    and -1 != a.thread != b.thread
                    and PLAIN in (a.order, b.order)
                    and (a.writes or b.writes)
                    and not self.happens[first] >> second & 1
                    and not self.happens[second] >> first & 1
                ):
                    found.append(f"threads {a.thread}, {b.thread} race for {a.place}")
        return found


@dataclass
class Program:
    """Threads, the first values of places, and what must hold of the threads' results.
    `holds` gets a result for each thread; None if the thread waits for ever."""

    threads: list[Thread]
    initial: dict[str, Value]
    holds: Callable[[list[Value]], bool]


@dataclass
class Found:
    executions: int = 0
    problems: list[str] = field(default_factory=list)


def _next(program: Program, graph: Graph, thread: int) -> Operation | tuple[Value]:
    """The next operation of a thread, or its result."""
    running = program.threads[thread]()
    try:
        operation = next(running)
        for event in graph.events:
            if event.thread == thread:
                operation = running.send(event.read)
    except StopIteration as end:
        return (end.value,)
    return operation


def _with_event(graph: Graph, event: Event, place: int | None) -> Graph:
    number = len(graph.events)
    orders = graph.modifications
    if place is not None:
        order = orders[event.place]
        order = (*order[:place], number, *order[place:])
        orders = {**orders, event.place: order}
    return Graph((*graph.events, event), orders)


def _extensions(graph: Graph, thread: int, operation: Operation) -> Iterator[Graph]:
    """The graph with the operation, in each way in which it may read and write."""
    order = graph.modifications[operation.place]
    event = Event(thread, operation.place, operation.order)
    if not operation.reads:
        assert operation.change
        event = replace(event, writes=True, written=operation.change(None))
        for place in range(1, len(order) + 1):
            yield _with_event(graph, event, place)
        return
    for at, source in enumerate(order):
        value = graph.events[source].written
        if operation.awaits and not operation.awaits(value):
            continue
        reading = replace(event, source=source, read=value)
        written = operation.change(value) if operation.change else None
        if written is None:
            failed = operation.failing if operation.change else operation.order
            yield _with_event(graph, replace(reading, order=failed), None)
        else:
            writing = replace(reading, writes=True, written=written)
            yield _with_event(graph, writing, at + 1)


def _steps(program: Program, graph: Graph) -> tuple[list[Value], dict[int, Operation]]:
    """The results of threads that have ended, and what the others may do next. A plain
    access comes at once and alone: an access that it does not commute with is a race."""
    results: list[Value] = []
    steps: dict[int, Operation] = {}
    for thread in range(len(program.threads)):
        step = _next(program, graph, thread)
        if isinstance(step, Operation):
            steps[thread] = step
        results.append(None if isinstance(step, Operation) else step[0])
    plain = next((t for t, step in steps.items() if step.order == PLAIN), None)
    return results, steps if plain is None else {plain: steps[plain]}


def explore(program: Program) -> Found:
    """Every execution of the program. It stops at the first problem."""
    events = tuple(
        Event(-1, place, PLAIN, writes=True, written=value)
        for place, value in program.initial.items()
    )
    orders = {event.place: (number,) for number, event in enumerate(events)}
    waiting = [Graph(events, orders)]
    known = {waiting[0].key(): True}  # and whether it is consistent
    found = Found()
    while waiting and not found.problems:
        graph = waiting.pop()
        results, steps = _steps(program, graph)
        grows = False
        for thread, step in steps.items():
            for larger in _extensions(graph, thread, step):
                key = larger.key()
                if key not in known:
                    relations = Relations(larger)
                    known[key] = relations.is_consistent()
                    if known[key]:
                        found.problems += relations.races()
                        waiting.append(larger)
                grows |= known[key]
        if not grows:
            found.executions += 1
            if not program.holds(results):
                found.problems.append(f"the threads end with {results}")
    return found
