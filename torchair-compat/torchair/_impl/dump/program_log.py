"""Logs a compiled program: its streams, and which command waits for which."""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Iterator

from anabranch.extension import list_program

from ..log import logger

__all__ = ["log_program"]

_STREAM = re.compile(r"  stream (\d+) ?(.*?) \(priority -?\d+\)")
_EVENT = re.compile(r"    (record|wait) (\d+)(?:  ; .*)?")
_FIRST = "0", "main"  # the stream outside all scopes


@dataclasses.dataclass
class _Stream:
    name: str
    commands: list[str] = dataclasses.field(default_factory=list)
    # events, with the number of commands before each
    records: dict[str, int] = dataclasses.field(default_factory=dict)
    waits: list[tuple[str, int]] = dataclasses.field(default_factory=list)


def log_program(package: str, graph: str) -> None:
    """Logs a package. Of several programs it logs the first one, and the number of the
    others."""
    listing = list_program(package)
    _, first, *others = re.split("^program .*\n", listing, flags=re.MULTILINE)
    streams = _read(first)
    for line in _events(streams):
        logger.debug("Event: %s", line)
    for stream in streams:
        commands = ", ".join(stream.commands)
        logger.debug("Stream %s of %s: %s", stream.name, graph, commands)
    if others:
        logger.debug("%s has %d programs more, for other sizes", graph, len(others))


def _read(program: str) -> list[_Stream]:
    streams: list[_Stream] = []
    lines = itertools.dropwhile(
        lambda line: not _STREAM.fullmatch(line), program.splitlines()
    )
    for line in lines:
        if found := _STREAM.fullmatch(line):
            is_default = found.groups() == _FIRST
            streams.append(_Stream("default" if is_default else found[2]))
        elif found := _EVENT.fullmatch(line):
            stream, at = streams[-1], len(streams[-1].commands)
            if found[1] == "record":
                stream.records[found[2]] = at
            else:
                stream.waits.append((found[2], at))
        elif line.startswith("    ") and line[4] != " ":
            streams[-1].commands.append(_command(line))
    return streams


def _command(line: str) -> str:
    """The operators of a command and the user's line; for a copy, which has no line,
    the buffers."""
    action, _, location = line.strip().partition("  ; ")
    if action.startswith("super "):
        return f"{action.partition(',')[0]} ({location})" if location else action
    return location or action


def _events(streams: list[_Stream]) -> Iterator[str]:
    recorded = {
        event: (stream, at)
        for stream in streams
        for event, at in stream.records.items()
    }
    for stream in streams:
        for event, at in stream.waits:
            waits = stream.commands[at] if at < len(stream.commands) else "the end"
            other, place = recorded[event]
            before = other.commands[place - 1] if place else "the beginning"
            yield f"{waits} on stream {stream.name} waits for {before} on stream {other.name}"
