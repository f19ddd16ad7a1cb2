"""Memory in huge pages: a walk in large strides then finds its pages' places in the
processor's own table."""

from __future__ import annotations

import ctypes
import mmap
from pathlib import Path

SIZE = 2 << 20  # of a huge page, as in src/machine/processor/MemoryUnits.h
_SETTING = Path("/sys/kernel/mm/transparent_hugepage/enabled")
_COLLAPSE = 25  # MADV_COLLAPSE of Linux 6.1, which Python's mmap does not name


def gather(address: int, size: int) -> bool:
    """Asks the system to have memory that is written already in huge pages, at once. The
    values stay. False: the memory stays as it is, since the system has no such pages,
    or has too few."""
    begin = -(-address // SIZE) * SIZE
    end = (address + size) // SIZE * SIZE
    if begin >= end or not _are_allowed():
        return False
    if _advise(begin, end, mmap.MADV_HUGEPAGE):
        return _advise(begin, end, _COLLAPSE)
    return False


def _are_allowed() -> bool:
    """Whether the administrator leaves the choice to programs: MADV_COLLAPSE does not
    ask."""
    try:
        return "[never]" not in _SETTING.read_text()
    except OSError:
        return False


def _advise(begin: int, end: int, advice: int) -> bool:
    madvise = ctypes.CDLL(None).madvise
    madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    return madvise(begin, end - begin, advice) == 0
