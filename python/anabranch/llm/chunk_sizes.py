"""Cuts a prompt into chunks of few sizes, so that few programs serve all lengths."""

from __future__ import annotations

import functools
from collections.abc import Iterator

# Filling up a chunk adds less than 16 tokens, or at most half of the tokens that it
# reads.
SIZES = (16, 32, 48, 64, 96, 128, 192, 256, 384, 512)
LARGEST_CHUNK = SIZES[-1]
# Where the cache has no room for filling up.
SMALL = (1, 2, 4, 8)
# Each chunk reads all weights, which takes as long as computing this many tokens.
CHUNK_COST = 24


def chunks(
    count: int,
    room: int | None,
    sizes: tuple[int, ...] = SIZES,
    small: tuple[int, ...] = SMALL,
) -> Iterator[tuple[int, int, int]]:
    """(begin, end, size) of each chunk: it has `end - begin` tokens and is filled up to
    `size`.

    count  tokens of the prompt
    room   tokens that the cache has room for, those that fill a chunk up included;
           None: any. Without room for them, chunks are chosen that need none
    sizes  of chunks, in ascending order
    small  sizes of chunks that are only taken where there is no room for others; 1 is
           one of them
    """
    begin = 0
    while begin < count:
        rest = count - begin
        size = 1 if rest == 1 else _cheapest(min(rest, sizes[-1]), sizes)[1]
        if room is not None and begin + size > room:
            size = max(s for s in (*sizes, *small) if s <= rest)
        end = min(begin + size, count)
        yield begin, end, size
        begin = end


@functools.cache
def _cheapest(count: int, sizes: tuple[int, ...]) -> tuple[int, int]:
    """The cost of reading this many tokens, in tokens, and the size of the first chunk."""
    found = []
    for size in sizes:
        rest = 0 if size >= count else _cheapest(count - size, sizes)[0]
        found.append((size + CHUNK_COST + rest, size))
        if size >= count:
            break
    return min(found)
