"""Says how much memory this process may still take."""

from __future__ import annotations

import resource

from . import _C

MIB = 1 << 20


def available() -> int:
    """Available bytes: of the machine, or under the container's limit if that is less."""
    free = _meminfo("MemAvailable")
    room = _C.memory_room()
    return free if room is None else min(free, room)


def peak() -> int:
    """The most bytes of memory that this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def require(needed: int, purpose: str, advice: str) -> None:
    """MemoryError: fewer than `needed` bytes are available for `purpose`. `advice` ends
    the message."""
    free = available()
    if needed > free:
        raise MemoryError(
            f"{purpose} needs {needed // MIB} MiB and {free // MIB} MiB are available:"
            f" {advice}"
        )


def _meminfo(name: str) -> int:
    with open("/proc/meminfo") as file:
        rows = dict(line.split(":", 1) for line in file)
    return int(rows[name].split()[0]) * 1024
