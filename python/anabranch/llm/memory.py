"""How much memory a process may still take."""

from __future__ import annotations

import resource

from .. import _C

MIB = 1 << 20


def available() -> int:
    """Bytes, by the machine and the container's limit, whichever is less."""
    free = _meminfo("MemAvailable")
    room = _C.memory_room()
    return free if room is None else min(free, room)


def peak() -> int:
    """Bytes that this process had at most."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def require(needed: int, purpose: str, advice: str) -> None:
    """MemoryError: there are fewer bytes than `needed` for `purpose`."""
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
