"""Reads a trace file and checks it."""

from __future__ import annotations

import dataclasses
import json
import linecache
import os
from typing import Any

# One past the last stream of a track: src/trace/ChromeTrace.cpp.
_STREAMS_PER_TRACK = 256
VERSION = 1

# Words in an operator's name that show its kind of work; the first that fits counts.
_KINDS = (
    ("attention", ("attention",)),
    ("product", ("linear", "matmul", "mm", "conv", "einsum", "dot", "mv")),
    (
        "reduction",
        ("norm", "softmax", "sum", "mean", "max", "min", "var", "std", "pool", "scan")
        + ("cumsum", "arg", "any", "all", "prod", "sort", "topk"),
    ),
    ("lookup", ("embedding", "gather", "scatter", "index", "select", "take", "put")),
    (
        "movement",
        ("copy", "cat", "clone", "transpose", "permute", "pad", "view", "slice")
        + ("stack", "expand", "roll", "flip", "repeat", "constant"),
    ),
)


class TraceError(ValueError):
    """The file is no trace of Anabranch, or is damaged."""


@dataclasses.dataclass
class Piece:
    """The work of one thread on a command."""

    thread: int
    begin: int
    end: int
    tiles: int


@dataclasses.dataclass
class Execution:
    """One command of one call. Times are in nanoseconds since the first call."""

    call: int
    command: int
    stream: int
    begin: int
    end: int
    about: dict[str, Any]
    pieces: list[Piece] = dataclasses.field(default_factory=list)
    part_of: int | None = None  # the super kernel that has this launch


@dataclasses.dataclass
class Call:
    program: int
    thread: int
    begin: int
    end: int
    track: int = 0
    executions: dict[int, Execution] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass
class TraceData:
    programs: list[dict[str, Any]]
    machine: dict[str, Any]
    threads: dict[int, str]
    calls: dict[int, Call]
    dropped: int


def read_trace(path: str | os.PathLike[str]) -> TraceData:
    """The trace in a file. OSError: it cannot be read. TraceError: it is no trace, or
    damaged."""
    try:
        with open(path, encoding="utf-8") as file:
            text = json.load(file)
    except (ValueError, RecursionError) as error:
        raise TraceError(f"{os.fspath(path)} is no JSON: {error}") from error
    if not isinstance(text, dict) or not isinstance(text.get("anabranch"), dict):
        raise TraceError(
            f"{os.fspath(path)} is no trace of Anabranch; "
            "ANABRANCH_TRACE=<file> or anabranch.profile() makes one"
        )
    if text["anabranch"].get("version") != VERSION:
        raise TraceError(
            f"{os.fspath(path)} has version {text['anabranch'].get('version')!r}; "
            f"this Anabranch reads version {VERSION}"
        )
    try:
        return _parse(text)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise TraceError(f"{os.fspath(path)} is damaged: {error!r}") from error


def _parse(text: dict[str, Any]) -> TraceData:
    about = text["anabranch"]
    programs = [_program(program) for program in about["programs"]]
    limits = ("gflops", "gflops_all", "cache_gbs", "memory_gbs", "memory_gbs_all")
    machine: dict[str, Any] = {"cpu": str(about["machine"]["cpu"])}
    machine |= {name: float(about["machine"][name]) for name in limits}
    data = TraceData(programs, machine, {}, {}, int(about["dropped slices"]))
    slices: dict[str, list[dict[str, Any]]] = {"call": [], "stream": [], "worker": []}
    for event in text["traceEvents"]:
        if event["ph"] == "M":
            if event["name"] == "thread_name" and event["pid"] == about["process"]:
                data.threads[int(event["tid"])] = str(event["args"]["name"])
        elif event["ph"] == "X":
            slices[event["cat"]].append(event)
    for event in slices["call"]:
        begin, end = _times(event)
        program = int(event["args"]["program"])
        if not 0 <= program < len(data.programs):
            raise ValueError(f"there is no program {program}")
        call = Call(program, int(event["tid"]), begin, end)
        data.calls[int(event["args"]["call"])] = call
    for event in slices["stream"]:
        _add_execution(data, event)
    for event in slices["worker"]:
        _add_piece(data, event)
    return data


def _program(about: dict[str, Any]) -> dict[str, Any]:
    streams = [
        {"name": str(stream["name"]), "priority": int(stream["priority"])}
        for stream in about["streams"]
    ]
    of_command = [int(stream) for stream in about["stream of command"]]
    if any(not 0 <= stream < len(streams) for stream in of_command):
        raise ValueError("a command on a stream that is not there")
    return {
        "name": str(about["name"]),
        "streams": streams,
        "stream of command": of_command,
        "events": [(int(a), int(b)) for a, b in about["events"]],
    }


def _add_execution(data: TraceData, event: dict[str, Any]) -> None:
    arguments = event["args"]
    number, command = int(arguments["call"]), int(arguments["command"])
    call = data.calls[number]
    stream = int(data.programs[call.program]["stream of command"][command])
    call.track = (int(event["tid"]) - 1) // _STREAMS_PER_TRACK
    begin, end = _times(event)
    about = _about(event)
    call.executions[command] = Execution(number, command, stream, begin, end, about)


def _about(event: dict[str, Any]) -> dict[str, Any]:
    arguments = event["args"]
    return {
        "name": str(event["name"]),
        "kind": str(arguments["kind"]),
        "operators": str(arguments.get("operators", "")),
        "source": str(arguments.get("source", "")),
        "shapes": str(arguments["shapes"]),
        "flop": float(arguments["FLOP"]) if "FLOP" in arguments else None,
        "bytes": float(arguments["bytes"]) if "bytes" in arguments else None,
        "tiles": int(arguments.get("tiles", 0)),
        "super": str(arguments.get("super kernel", "")),
    }


def _add_piece(data: TraceData, event: dict[str, Any]) -> None:
    arguments = event["args"]
    executions = data.calls[arguments["call"]].executions
    begin, end = _times(event)
    piece = Piece(int(event["tid"]), begin, end, int(arguments.get("tiles", 0)))
    command = int(arguments["command"])
    if "part of" in arguments:
        _add_to_launch(executions, command, event, begin, end)
    executions[command].pieces.append(piece)


def _add_to_launch(
    executions: dict[int, Execution],
    command: int,
    event: dict[str, Any],
    begin: int,
    end: int,
) -> None:
    """Adds a piece of work to a launch of a super kernel, which has no slice of its
    own."""
    whole = executions[int(event["args"]["part of"])]
    about = _about(event)
    launch = executions.get(command)
    if launch is None:
        executions[command] = Execution(
            whole.call, command, whole.stream, begin, end, about, [], whole.command
        )
        return
    launch.begin, launch.end = min(launch.begin, begin), max(launch.end, end)
    for key in ("flop", "bytes", "tiles"):
        if about[key] is not None and launch.about[key] is not None:
            launch.about[key] += about[key]


def _times(event: dict[str, Any]) -> tuple[int, int]:
    begin = round(float(event["ts"]) * 1000)
    return begin, begin + max(0, round(float(event["dur"]) * 1000))


def kind_of_work(about: dict[str, Any]) -> str:
    """The kind of work that the page shows by a colour, guessed from the operators'
    names."""
    if about["kind"] == "super":
        return "super kernel"
    if about["kind"] != "launch":
        return "PyTorch" if about["kind"] == "call" else "movement"
    names = about["operators"] or about["name"]
    words = names.lower().replace(",", " ").replace("_", " ").split()
    for kind, signs in _KINDS:
        if any(word == sign or word.endswith(sign) for word in words for sign in signs):
            return kind
    return "pointwise"


def source_text(source: str) -> str:
    """The line of the user's program, if its file can still be read."""
    file, _, line = source.rpartition(":")
    if not file or not line.isdecimal():
        return ""
    return linecache.getline(file, int(line)).strip()[:200]
