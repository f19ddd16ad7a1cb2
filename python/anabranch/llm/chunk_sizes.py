"""How a prompt is cut up, so that few programs serve all lengths."""

from __future__ import annotations

import functools
from collections.abc import Iterator

# A chunk is filled up by less than 16 tokens, or by half of what it reads at most.
SIZES = (16, 32, 48, 64, 96, 128, 192, 256, 384, 512)
LARGEST_CHUNK = SIZES[-1]
# A chunk reads all weights. That takes as long as computing so many tokens.
CHUNK_COST = 24


def chunks(count: int, room: int | None) -> Iterator[tuple[int, int, int]]:
    """(begin, end, size) of each chunk: `end - begin` tokens, filled up to `size`.

    room  tokens that fit into the cache, filling included; None: any. Where it has no
          room for the filling, chunks are taken that need none."""
    begin = 0
    while begin < count:
        rest = count - begin
        size = 1 if rest == 1 else _cheapest(min(rest, LARGEST_CHUNK))[1]
        if room is not None and begin + size > room:
            size = next(s for s in (*SIZES[::-1], 8, 4, 2, 1) if s <= rest)
        end = min(begin + size, count)
        yield begin, end, size
        begin = end


@functools.cache
def _cheapest(count: int) -> tuple[int, int]:
    """What reading so many tokens costs, in tokens, and the first chunk of it."""
    found = []
    for size in SIZES:
        rest = 0 if size >= count else _cheapest(count - size)[0]
        found.append((size + CHUNK_COST + rest, size))
        if size >= count:
            break
    return min(found)
