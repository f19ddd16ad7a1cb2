"""Completes the results of a call: makes views, and copies results to strides that only
the call knows.

`aliases` finds these results while it describes a graph; this module runs at each call.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any


@dataclasses.dataclass(frozen=True)
class Alias:
    """One result that the caller makes.

    `geometry` has sizes, strides, and then the distance from the start of the base.
    None: the next number that the program returns besides its results.
    """

    output: int
    base: int  # an argument of the call, or an output
    of_output: bool
    geometry: tuple[int | None, ...]
    # Not a view: the output is a copy of `base` with these strides.
    copied: bool = False

    @property
    def is_computed(self) -> bool:
        """Whether the program returns the output, with other strides."""
        return self.of_output and self.base == self.output


def restore(
    executable: Callable[[list[Any]], Sequence[Any]], aliases: Sequence[Alias]
) -> Callable[[list[Any]], list[Any]]:
    """Wraps the executable: a call returns its results together with the views and
    copies."""
    extra = sum(number is None for alias in aliases for number in alias.geometry)

    def call(arguments: list[Any]) -> list[Any]:
        bases = [None if a.of_output else arguments[a.base] for a in aliases]
        results = list(executable(arguments))
        numbers = iter(results[len(results) - extra :])
        del results[len(results) - extra :]
        for alias, base in zip(aliases, bases):
            base = results[alias.base] if base is None else base
            full = [next(numbers) if n is None else n for n in alias.geometry]
            rank = len(full) // 2
            sizes, strides = full[:rank], full[rank:-1]
            if alias.copied:
                results[alias.output] = _laid_out(base, sizes, strides)
                continue
            start = base.storage_offset() + full[-1]
            view = base.as_strided(sizes, strides, start)
            # PyTorch refuses in-place updates of a view that an autograd function
            # returns, and AOTAutograd may make the caller's views of this one.
            results[alias.output] = view.detach() if alias.of_output else view
        return results

    call._boxed_call = True  # type: ignore[attr-defined]
    return call


def overlaps(shape: Sequence[Any], strides: Sequence[Any]) -> bool:
    """Whether two elements of a tensor may share memory. In the order of their strides,
    each dimension must begin after the one before it has ended."""
    extent: float = 0
    for stride, size in sorted(zip(strides, shape), key=lambda pair: pair[0]):
        if isinstance(size, int) and size <= 1:
            continue
        if stride <= extent:
            return True
        # The extent of a symbolic dimension is not known: it may reach any distance.
        extent += stride * (size - 1) if isinstance(size, int) else math.inf
    return False


def _laid_out(base: Any, sizes: list[int], strides: list[int]) -> Any:
    """A copy with these strides. Elements that share memory are equal, so any of them
    may be the one that is written."""
    if not overlaps(sizes, strides):
        return base.new_empty_strided(sizes, strides).copy_(base)
    places = base.new_zeros((), dtype=int)
    for dim, (size, stride) in enumerate(zip(sizes, strides)):
        line = stride * places.new_ones(size).cumsum(0) - stride
        places = places + line.view(-1, *[1] * (len(sizes) - dim - 1))
    extent = 1 + sum(stride * (size - 1) for size, stride in zip(sizes, strides))
    memory = base.new_zeros(extent)
    memory[places.reshape(-1)] = base.reshape(-1)
    return memory.as_strided(sizes, strides)
