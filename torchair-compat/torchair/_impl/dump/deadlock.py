"""Looks in a trace for collectives that may wait for each other.

Two collectives conflict if they are on different streams, neither comes before the
other, and together they need more vector cores than there are.

A trace is JSON in the Trace Event Format. The `args` of its complete events ("ph": "X")
have "Task Type", "Stream Id", "TaskId", and more by type: "Event Id" (EVENT_RECORD,
EVENT_WAIT), "Address" (MEM_WRITE_VALUE, MEM_WAIT_VALUE), "Active Stream"
(STREAM_ACTIVE), "Block Num", "Mix Ratio" and "Schem Mode" (kernels), "Communication".
"""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

__all__ = [
    "AIVEC_TOTAL",
    "align_trace_json",
    "deadlock_check",
    "filter_comm_ops",
    "write_trace",
]

AIVEC_TOTAL = 48
_PREFIX = "dead_lock_"
_RECORDS = {"EVENT_RECORD": "Event Id", "MEM_WRITE_VALUE": "Address"}
_WAITS = {"EVENT_WAIT": "Event Id", "MEM_WAIT_VALUE": "Address"}
_ACTIVE = "STREAM_ACTIVE"
_NAMES = ("aiv_", "dispatch", "combine")

_Event = dict[str, Any]
_Clock = dict[str, int]


@dataclasses.dataclass
class _Task:
    event: _Event
    stream: str
    clock: _Clock = dataclasses.field(default_factory=dict)

    @property
    def type(self) -> str:
        return str(self.event["args"].get("Task Type", ""))

    def key(self, names: dict[str, str]) -> tuple[str, Any]:
        """What a record and the waits for it have in common."""
        name = names[self.type]
        return name, self.event["args"].get(name)

    @property
    def is_candidate(self) -> bool:
        """Whether the task is a collective that keeps its cores until all ranks are
        there."""
        args = self.event["args"]
        name = str(self.event.get("name", ""))
        collective = args.get("Communication") or any(n in name for n in _NAMES)
        return bool(collective) and int(args.get("Schem Mode", 0)) == 1

    @property
    def demand(self) -> int:
        """The vector cores that the task needs: one for each block of a kernel, two for
        a block of a mixed kernel, none if the ratio is 0."""
        args = self.event["args"]
        blocks = int(args.get("Block Num", 0))
        if "MIX" in self.type:
            return 2 * blocks if float(args.get("Mix Ratio", 0)) else 0
        return blocks if "AIV" in self.type else 0

    def is_before(self, other: _Task) -> bool:
        return self.clock[self.stream] <= other.clock.get(self.stream, 0)

    def __str__(self) -> str:
        args = self.event["args"]
        return (
            f"[stream{args.get('Stream Id')} TaskId={args.get('TaskId')}]"
            f" {self.event.get('name')} ({self.demand} AIVEC)"
        )


# Reading and writing


def _read(path: str) -> list[_Event]:
    with open(path, encoding="utf-8") as file:
        found = json.load(file)
    events = found.get("traceEvents") if isinstance(found, dict) else found
    if not isinstance(events, list):
        text = f"{path} is no trace: it has no list of events"
        raise ValueError(text)  # noqa: TRY004 - of the file's content
    return [{**event, "args": event.get("args") or {}} for event in events]


def write_trace(path: str, events: Iterable[_Event]) -> None:
    """Writes events as a trace. OSError: the file cannot be written."""
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"traceEvents": list(events)}, file, indent=1)


def _merged(events: Sequence[_Event], gap: float) -> list[_Event]:
    """Joins events of one stream and name that are closer than the gap."""
    if gap <= 0:
        return list(events)
    last: dict[Any, _Event] = {}
    made: list[_Event] = []
    for event in sorted(events, key=_start):
        key = (event.get("pid"), event.get("tid"), event.get("name"))
        before = last.get(key)
        if before is not None and _start(event) - _end(before) < gap:
            before["dur"] = max(_end(event), _end(before)) - _start(before)
            continue
        last[key] = dict(event)
        made.append(last[key])
    return made


def _start(event: _Event) -> float:
    return float(event.get("ts", 0))


def _end(event: _Event) -> float:
    return _start(event) + float(event.get("dur", 0))


# The tools


def align_trace_json(input: str, output: str, merge_gap: float = 0.0) -> None:
    """Writes the trace so that its first event starts at time 0.

    input      the path of a trace
    output     the path of the new trace
    merge_gap  events of one stream and name that are closer than this time become one

    OSError, ValueError: the input is no trace.
    """
    events = _merged(_read(input), merge_gap)
    first = min((_start(e) for e in events if "ts" in e), default=0.0)
    moved = [{**e, "ts": _start(e) - first} if "ts" in e else e for e in events]
    write_trace(output, moved)


def filter_comm_ops(input_path: str, output_path: str, merge_gap: float = 0.0) -> None:
    """Writes the collectives of a trace and the tasks that order them. Arguments and
    errors are those of align_trace_json."""
    orders = {*_RECORDS, *_WAITS, _ACTIVE}
    tasks = [_Task(event, "") for event in _merged(_read(input_path), merge_gap)]
    kept = [t.event for t in tasks if t.is_candidate or t.type in orders]
    write_trace(output_path, kept)


def deadlock_check(
    input_path: str, output_path: str, aivec_total: int, merge_gap: float = 0.0
) -> None:
    """Prints the pairs of collectives that may wait for each other, and writes the
    trace with `dead_lock_` before their names.

    aivec_total  how many vector cores there are

    The other arguments and the errors are those of align_trace_json.
    """
    events = _merged(_read(input_path), merge_gap)
    found = _conflicts(_tasks(events), aivec_total)
    for one in {id(task): task for pair in found for task in pair}.values():
        one.event["name"] = f"{_PREFIX}{one.event.get('name')}"
    write_trace(output_path, events)


def _conflicts(tasks: list[_Task], total: int) -> list[tuple[_Task, _Task]]:
    candidates = [task for task in tasks if task.is_candidate]
    found = [
        (a, b)
        for a, b in itertools.combinations(candidates, 2)
        if not (a.is_before(b) or b.is_before(a)) and a.demand + b.demand > total
    ]
    if not found:
        print("[RESULT] No deadlock risks detected.", flush=True)
        return found
    print(f"[RESULT] Deadlock risk detected! {len(found)} conflicting pair(s):")
    for a, b in found:
        sums = f"sum={a.demand + b.demand} > {total}"
        print(f"  CONFLICT: {a}  <->  {b}  {sums}", flush=True)
    return found


# Which task comes before which


def _tasks(events: Sequence[_Event]) -> list[_Task]:
    """The tasks, with their vector clocks."""
    timed = sorted((e for e in events if e.get("ph", "X") == "X"), key=_start)
    homes = _homes(timed)
    tasks = [_Task(event, homes[_stream(event)]) for event in timed]
    waiting: dict[str, list[_Task]] = defaultdict(list)
    for task in tasks:
        waiting[task.stream].append(task)
    _run(waiting, _matches(tasks))
    return tasks


def _stream(event: _Event) -> str:
    return str(event["args"].get("Stream Id", event.get("tid")))


def _homes(events: Sequence[_Event]) -> dict[str, str]:
    """Maps streams to those that they are part of: a stream that another one activates
    is part of that one."""
    homes = {_stream(event): _stream(event) for event in events}

    def home(name: str) -> str:
        while homes.setdefault(name, name) != name:
            name = homes[name]
        return name

    for event in events:
        if event["args"].get("Task Type") == _ACTIVE:
            homes[home(str(event["args"].get("Active Stream")))] = home(_stream(event))
    return {name: home(name) for name in list(homes)}


def _matches(tasks: Sequence[_Task]) -> dict[int, _Task]:
    """For each wait: the last record of its event before it, else the first one."""
    records: dict[Any, list[_Task]] = defaultdict(list)
    for task in tasks:
        if task.type in _RECORDS:
            records[task.key(_RECORDS)].append(task)
    found = {}
    for task in tasks:
        if task.type in _WAITS and (known := records.get(task.key(_WAITS))):
            before = [r for r in known if _start(r.event) <= _start(task.event)]
            found[id(task)] = before[-1] if before else known[0]
    return found


def _run(waiting: dict[str, list[_Task]], matches: dict[int, _Task]) -> None:
    """Runs the streams to compute the clocks. A wait whose record never comes is passed
    over."""
    clocks: dict[str, _Clock] = {name: {} for name in waiting}
    places = dict.fromkeys(waiting, 0)
    while any(places[name] < len(tasks) for name, tasks in waiting.items()):
        moved = False
        for name, tasks in waiting.items():
            while places[name] < len(tasks):
                task = tasks[places[name]]
                record = matches.get(id(task))
                if record is not None and not record.clock:
                    break
                _tick(task, clocks[name], record)
                places[name] += 1
                moved = True
        if not moved:
            stuck = (t[places[n]] for n, t in waiting.items() if places[n] < len(t))
            matches.pop(id(next(stuck)))


def _tick(task: _Task, clock: _Clock, record: _Task | None) -> None:
    for name, time in (record.clock if record else {}).items():
        clock[name] = max(clock.get(name, 0), time)
    clock[task.stream] = clock.get(task.stream, 0) + 1
    task.clock = dict(clock)
