"""Results that the caller finishes: views of what there is, and results whose
strides only the call knows.

`aliases` finds them while a graph is described; this is what each call needs.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any


@dataclasses.dataclass(frozen=True)
class Alias:
    """geometry: sizes, strides, then the distance from the start of the base;
    None stands for the next of the numbers that the program gives besides."""

    output: int
    base: int  # an argument of the call, or an output
    of_output: bool
    geometry: tuple[int | None, ...]
    # The output is no view: it is `base`, itself, copied to memory of its own
    # with these strides.
    copied: bool = False


def restore(
    executable: Callable[[list[Any]], Sequence[Any]], aliases: Sequence[Alias]
) -> Callable[[list[Any]], list[Any]]:
    """The executable, its results completed with the views and the copies."""
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
            # A view that an autograd function returns refuses to be updated. This
            # one may be what AOTAutograd makes the caller's views of.
            results[alias.output] = view.detach() if alias.of_output else view
        return results

    call._boxed_call = True  # type: ignore[attr-defined]
    return call


def overlaps(shape: Sequence[Any], strides: Sequence[Any]) -> bool:
    """Whether two elements may share memory: with dimensions in the order of
    their strides, one must not begin before the last has ended."""
    reach: float = 0
    for stride, size in sorted(zip(strides, shape), key=lambda pair: pair[0]):
        if isinstance(size, int) and size <= 1:
            continue
        if stride <= reach:
            return True
        # How far a symbolic dimension reaches is not known: as far as can be.
        reach += stride * (size - 1) if isinstance(size, int) else math.inf
    return False


def _laid_out(base: Any, sizes: list[int], strides: list[int]) -> Any:
    """A copy with these strides; `base` where elements would share memory."""
    if overlaps(sizes, strides):
        return base
    return base.new_empty_strided(sizes, strides).copy_(base)
