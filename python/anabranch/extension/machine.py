"""The machine's memory and temporary folders, for front ends. Needs no
PyTorch."""

from __future__ import annotations

from contextlib import AbstractContextManager

from .. import collector, huge_pages, memory, scratch

__all__ = [
    "collector_at_rest",
    "gather_huge_pages",
    "peak_memory",
    "require_memory",
    "scratch_folder",
]


def require_memory(needed: int, purpose: str, advice: str) -> None:
    """MemoryError: fewer than `needed` bytes are available for `purpose`. `advice` ends
    the message."""
    memory.require(needed, purpose, advice)


def peak_memory() -> int:
    """The most bytes of memory that this process has had."""
    return memory.peak()


def gather_huge_pages(address: int, size: int) -> bool:
    """Asks the system to have memory that is written already in huge pages, at once. The
    values stay. False: the memory stays as it is, since the system has no such pages,
    or has too few."""
    return huge_pages.gather(address, size)


def scratch_folder() -> AbstractContextManager[str]:
    """Makes a private folder and removes it after the block; a later process removes it
    if this one is killed. OSError: no place can be written."""
    return scratch.folder()


def collector_at_rest() -> AbstractContextManager[None]:
    """Keeps Python's cyclic garbage collector off inside the block, in which many objects
    are made that stay. Blocks of several threads may overlap."""
    return collector.at_rest()
