"""Keeps track of which blocks of a pool are free. A request owns the blocks of all its
tokens."""

from __future__ import annotations

BLOCK = 32  # in tokens


def blocks_for(tokens: int) -> int:
    return -(-tokens // BLOCK)


class Blocks:
    """The blocks of a pool, each free or owned by one request."""

    def __init__(self, count: int) -> None:
        self.count = count
        # Blocks are taken from the end, so a block that was just freed is taken first.
        self._free = list(reversed(range(count)))

    @property
    def free(self) -> int:
        return len(self._free)

    def take(self, count: int) -> list[int] | None:
        """That many blocks; None if fewer are free."""
        if count > len(self._free):
            return None
        return [self._free.pop() for _ in range(count)]

    def give_back(self, blocks: list[int]) -> None:
        self._free.extend(reversed(blocks))
