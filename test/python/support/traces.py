"""Makes traces for tests: a small scheduler runs towers of commands at the same time."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

PROCESS = 4242
STREAM_PROCESS = PROCESS + (1 << 22)
MACHINE = {
    "cpu": "a test's CPU, 2 CPUs",
    "gflops": 100.0,
    "gflops_all": 180.0,
    "cache_gbs": 120.0,
    "memory_gbs": 20.0,
    "memory_gbs_all": 30.0,
}
LAYERS = (
    ("linear, gelu", "k_linear_gelu", 3.2e6, 5.6e5),
    ("native_layer_norm", "k_layer_norm", 8.0e4, 1.3e5),
    ("attention", "k_attention", 1.6e6, 2.4e5),
    ("embedding", "k_embedding", None, 6.0e4),
    ("add, relu", "k_add_relu", 4.0e4, 1.2e5),
)


class Towers:
    """`streams` towers of `depth` commands. The first command of the main stream feeds
    them, and its last one joins them. `workers` threads take the commands that are
    ready."""

    def __init__(self, streams: int, depth: int, workers: int = 2) -> None:
        self.streams = ["main", *(f"tower {i}" for i in range(1, streams))]
        self.workers = workers
        self.stream_of = [0, 0]
        self.commands: list[tuple] = [LAYERS[3], LAYERS[0]]
        self.before: list[list[int]] = [[], [0]]
        self.events: list[list[int]] = []
        for stream in range(streams):
            previous = 0
            for layer in range(depth):
                number = len(self.commands)
                self.commands.append(LAYERS[(layer + stream) % len(LAYERS)])
                self.stream_of.append(stream)
                self.before.append([previous])
                if stream and previous == 0:
                    self.events.append([0, number])
                previous = number
            if stream:
                self.events.append([previous, 1])
            self.before[1].append(previous)
        # The last command of the main stream is also the last one in its order.
        order = [0, *range(2, len(self.commands)), 1]
        place = {old: new for new, old in enumerate(order)}
        self.commands = [self.commands[i] for i in order]
        self.stream_of = [self.stream_of[i] for i in order]
        self.before = [[place[b] for b in self.before[i]] for i in order]
        self.events = [[place[a], place[b]] for a, b in self.events]

    def run(self, chance: random.Random, start: float) -> list[tuple]:
        """(command, worker, begin, end) of each command, in microseconds."""
        free = [start] * self.workers
        ended: dict[int, float] = {}
        waiting = list(range(len(self.commands)))
        slices = []
        while waiting:
            ready = [c for c in waiting if all(b in ended for b in self.before[c])]
            command = min(
                ready,
                key=lambda c: (max((ended[b] for b in self.before[c]), default=0), c),
            )
            worker = min(range(self.workers), key=lambda w: free[w])
            after = max((ended[b] for b in self.before[command]), default=start)
            begin = max(free[worker], after) + chance.uniform(0.1, 0.6)
            cost = 2 + (self.commands[command][2] or 2e5) / 1.2e5
            end = begin + cost * chance.uniform(0.9, 1.2)
            free[worker] = ended[command] = end
            slices.append((command, worker, round(begin, 3), round(end, 3)))
            waiting.remove(command)
        return slices


def make_trace(towers: Towers, calls: int, source: str, seed: int = 1) -> dict:
    chance = random.Random(seed)
    events: list[dict[str, Any]] = [
        _named(PROCESS, PROCESS + w, "python" if w == 0 else "anabranch")
        for w in range(towers.workers)
    ]
    moment = 0.0
    for call in range(calls):
        slices = towers.run(chance, moment)
        end = max(end for *_, end in slices) + 0.4
        arguments = {"call": call, "program": 0}
        events.append(_slice("call", PROCESS, PROCESS, moment, end, "model", arguments))
        for command in sorted({slice[0] for slice in slices}):
            about = _arguments(towers, call, command, source)
            name, stream = towers.commands[command][1], towers.stream_of[command]
            pieces = [slice[1:] for slice in slices if slice[0] == command]
            begin, finish = min(p[1] for p in pieces), max(p[2] for p in pieces)
            place = (STREAM_PROCESS, stream + 1, begin, finish, name, about)
            events.append(_slice("stream", *place))
            for worker, begin, finish in pieces:
                place = (PROCESS, PROCESS + worker, begin, finish, name, about)
                events.append(_slice("worker", *place))
        moment = round(end + chance.uniform(4, 30), 3)
    program = {
        "name": "two_towers.forward",
        "streams": [{"name": s, "priority": 0} for s in towers.streams],
        "stream of command": towers.stream_of,
        "events": towers.events,
    }
    about = {
        "version": 1,
        "process": PROCESS,
        "dropped slices": 0,
        "programs": [program],
        "machine": MACHINE,
    }
    return {"displayTimeUnit": "ns", "traceEvents": events, "anabranch": about}


def write_trace(path: Path, towers: Towers, calls: int, source: str) -> Path:
    path.write_text(json.dumps(make_trace(towers, calls, source)))
    return path


def _named(process: int, thread: int, name: str) -> dict[str, Any]:
    return {
        "ph": "M",
        "pid": process,
        "tid": thread,
        "name": "thread_name",
        "args": {"name": name},
    }


def _slice(
    category: str,
    process: int,
    thread: int,
    begin: float,
    end: float,
    name: str,
    arguments: dict[str, Any],
) -> dict[str, Any]:
    return {
        "ph": "X",
        "cat": category,
        "pid": process,
        "tid": thread,
        "ts": begin,
        "dur": round(end - begin, 3),
        "name": name,
        "args": arguments,
    }


def _arguments(towers: Towers, call: int, command: int, source: str) -> dict[str, Any]:
    operators, _, flop, size = towers.commands[command]
    arguments = {
        "call": call,
        "command": command,
        "kind": "launch",
        "stream": towers.streams[towers.stream_of[command]],
        "shapes": "f32[4, 256], f32[256, 256], f32[256] -> f32[4, 256]",
        "operators": operators,
        "source": source,
        "bytes": size,
        "tiles": 1,
    }
    if flop is not None:
        arguments["FLOP"] = flop
    return arguments
