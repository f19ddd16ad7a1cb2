"""The results that a program leaves out, made as views of what there is.

`aliases` finds them while a graph is described; this is what each call needs.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any


@dataclasses.dataclass(frozen=True)
class Alias:
    """geometry: sizes, strides, then the distance from the start of the base;
    None stands for the next of the numbers that the program gives besides."""

    output: int
    base: int  # an argument of the call, or another output
    of_output: bool
    geometry: tuple[int | None, ...]


def restore(
    executable: Callable[[list[Any]], Sequence[Any]], aliases: Sequence[Alias]
) -> Callable[[list[Any]], list[Any]]:
    """The executable, its results completed with the views."""
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
            start = base.storage_offset() + full[-1]
            view = base.as_strided(full[:rank], full[rank:-1], start)
            results[alias.output] = view
        return results

    call._boxed_call = True  # type: ignore[attr-defined]
    return call
