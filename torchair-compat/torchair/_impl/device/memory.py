"""Memory as torch.npu counts it: the memory of this process, since the NPU is the host."""

from __future__ import annotations

import contextlib
import os
from typing import Any

__all__ = [
    "max_memory_allocated",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "memory_summary",
    "reset_max_memory_allocated",
    "reset_peak_memory_stats",
]


def _kilobytes(path: str, key: str) -> int:
    """The bytes in a line `Key:   123 kB`."""
    with open(path, encoding="ascii") as file:
        for line in file:
            if line.startswith(f"{key}:"):
                return int(line.split()[1]) * 1024
    return 0


def memory_allocated(device: Any = None) -> int:
    """The bytes of memory that the process has now."""
    return _kilobytes("/proc/self/status", "VmRSS")


def max_memory_allocated(device: Any = None) -> int:
    """The most bytes that the process has had since reset_peak_memory_stats."""
    return max(_kilobytes("/proc/self/status", "VmHWM"), memory_allocated())


def reset_peak_memory_stats(device: Any = None) -> None:
    """Restarts max_memory_allocated, if the system allows it."""
    with contextlib.suppress(OSError), open("/proc/self/clear_refs", "w") as file:
        file.write("5")


memory_reserved = memory_allocated
max_memory_reserved = max_memory_allocated
reset_max_memory_allocated = reset_peak_memory_stats


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """The free bytes of the host, and all of them."""
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return _kilobytes("/proc/meminfo", "MemAvailable"), total


def memory_stats(device: Any = None) -> dict[str, int]:
    """The numbers under the names that PyTorch's allocators give them."""
    now, peak = memory_allocated(), max_memory_allocated()
    return {
        f"{name}_bytes.all.{when}": value
        for name in ("allocated", "reserved", "active")
        for when, value in (("current", now), ("peak", peak))
    }


def memory_summary(device: Any = None, abbreviated: bool = False) -> str:
    """The numbers as text, one on a line."""
    return "\n".join(f"{name}: {value}" for name, value in memory_stats().items())
