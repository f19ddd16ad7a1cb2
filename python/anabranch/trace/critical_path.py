"""How a call used its time: its critical path, and how much ran at the same time.

The input is one call of a trace and the events of its program. The critical path goes
backwards from the command that ended last. Each step goes to the command that ended
last of those that had to end first. So the steps cover the whole call, and each gap has
a reason.

Takes O(n log n) in the number of slices, for sorting, and O(events)."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

from .trace_file import Call, Execution


@dataclasses.dataclass
class Step:
    """A command of the critical path, and what it followed.

    `reason` is "stream", "event", "worker" (the worker was busy with `after`), or ""
    for the begin of the call. From the time `free` on, nothing prevented the command
    from running.
    """

    command: int
    after: int | None
    reason: str
    free: int


@dataclasses.dataclass
class Measured:
    path: list[Step]
    on_path: int  # nanoseconds of work on it; the rest of the call is waiting
    busy: int  # nanoseconds of work, summed over all workers
    active: int  # nanoseconds with at least one command running
    overlapped: int  # nanoseconds with commands of at least two streams running
    # nanoseconds of the longest chain of dependencies: no number of workers is faster
    bound: int


def measure(call: Call, program: dict[str, Any]) -> Measured:
    executions = _commands(call)
    before = _dependencies(executions, program["events"])
    active, overlapped = _overlap(list(executions.values()))
    path = _critical_path(call, executions, before)
    return Measured(
        path=path,
        on_path=_work_on(path, executions),
        busy=sum(p.end - p.begin for e in executions.values() for p in e.pieces),
        active=active,
        overlapped=overlapped,
        bound=_longest_chain(executions, before),
    )


def _commands(call: Call) -> dict[int, Execution]:
    """The commands of a call. A super kernel is one command; its launches are its work."""
    commands = {c: e for c, e in call.executions.items() if e.part_of is None}
    for launch in call.executions.values():
        if launch.part_of is not None:
            whole = commands[launch.part_of]
            commands[launch.part_of] = dataclasses.replace(
                whole, pieces=whole.pieces + launch.pieces
            )
    return commands


Dependencies = dict[int, list[tuple[int, str]]]


def _dependencies(
    executions: dict[int, Execution], events: list[tuple[int, int]]
) -> Dependencies:
    """For each command, the commands that the program orders right before it."""
    before: Dependencies = {command: [] for command in executions}
    last: dict[int, int] = {}
    for command in sorted(executions):
        stream = executions[command].stream
        if stream in last:
            before[command].append((last[stream], "stream"))
        last[stream] = command
    for source, target in events:
        if source in executions and target in executions:
            before[target].append((source, "event"))
    return before


def _workers_before(executions: dict[int, Execution]) -> dict[int, tuple[int, int]]:
    """For each command: what the worker that began it did just before, and when that
    ended."""
    tracks: dict[int, list[tuple[int, int, int]]] = {}
    for command, execution in executions.items():
        for piece in execution.pieces:
            tracks.setdefault(piece.thread, []).append(
                (piece.begin, piece.end, command)
            )
    previous: dict[tuple[int, int], tuple[int, int]] = {}
    for thread, pieces in tracks.items():
        pieces.sort()
        for (_, end, earlier), (begin, _, _) in itertools.pairwise(pieces):
            previous[thread, begin] = (earlier, end)
    result = {}
    for command, execution in executions.items():
        if execution.pieces:
            first = min(execution.pieces, key=lambda piece: piece.begin)
            found = previous.get((first.thread, first.begin))
            if found is not None and found[0] != command:
                result[command] = found
    return result


def _critical_path(
    call: Call, executions: dict[int, Execution], before: Dependencies
) -> list[Step]:
    """The critical path: backwards from the command that ended last, each time to the
    one that ended last of those that had to end first."""
    if not executions:
        return []
    workers = _workers_before(executions)
    command = max(executions, key=lambda c: executions[c].end)
    path: list[Step] = []
    seen = set()
    while command not in seen:
        seen.add(command)
        choices = [
            (executions[c].end, True, c, reason) for c, reason in before[command]
        ]
        if command in workers:
            earlier, end = workers[command]
            choices.append((end, False, earlier, "worker"))
        begin = executions[command].begin
        choices = [choice for choice in choices if choice[0] <= begin]
        if not choices:
            path.append(Step(command, None, "", call.begin))
            break
        # The program's order explains a wait better than a busy worker.
        free, _, after, reason = max(choices)
        path.append(Step(command, after, reason, free))
        command = after
    return path[::-1]


def _work_on(path: list[Step], executions: dict[int, Execution]) -> int:
    """The work on the path. Several workers may run a command, and the path may leave
    it before it ends."""
    leaves = [step.free for step in path[1:]]
    leaves += [executions[step.command].end for step in path[-1:]]
    return sum(
        leave - executions[step.command].begin
        for step, leave in zip(path, leaves, strict=True)
    )


def _longest_chain(executions: dict[int, Execution], before: Dependencies) -> int:
    length: dict[int, int] = {}
    for command in sorted(executions, key=lambda c: executions[c].begin):
        execution = executions[command]
        earlier = max((length.get(c, 0) for c, _ in before[command]), default=0)
        length[command] = earlier + execution.end - execution.begin
    return max(length.values(), default=0)


def _overlap(executions: list[Execution]) -> tuple[int, int]:
    """The time with one command or more, and with two or more."""
    edges = sorted(edge for e in executions for edge in ((e.begin, 1), (e.end, -1)))
    active = overlapped = running = 0
    previous = 0
    for moment, change in edges:
        if running >= 1:
            active += moment - previous
        if running >= 2:
            overlapped += moment - previous
        running += change
        previous = moment
    return active, overlapped
