"""Parses shapes of inputs on the command line: `ids=1x128,mask=1x128`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Shapes = Mapping[str, tuple[int, ...]]


def parse(text: str) -> dict[str, tuple[int, ...]]:
    """The shape of each input that `text` names. ValueError: it is not spelled so."""
    shapes: dict[str, tuple[int, ...]] = {}
    for part in text.split(","):
        name, equals, sizes = part.partition("=")
        numbers = sizes.split("x")
        if not equals or not name or not all(n.isdecimal() for n in numbers):
            raise ValueError(
                f"--shape must look like NAME=1x128 or A=1x128,B=1, got {text!r}"
            )
        if name in shapes:
            raise ValueError(f"--shape {text} names {name!r} twice")
        shapes[name] = tuple(map(int, numbers))
    return shapes


def spell(shape: Sequence[int]) -> str:
    return "x".join(map(str, shape))


def check_names(given: Mapping[str, Any], known: Sequence[str], option: str) -> None:
    for name in given:
        if name not in known:
            there = ", ".join(known) or "none"
            raise ValueError(
                f"{option}: there is no input {name!r}; there are: {there}"
            )


def input_shape(info: Mapping[str, Any], shapes: Shapes) -> tuple[int, ...]:
    """The shape of a package's input: a size of -1 must be given, any other cannot be
    changed. `info` is an entry of `Package.inputs`."""
    name, fixed = info["name"], tuple(info["shape"])
    if name not in shapes:
        if -1 in fixed:
            pattern = "x".join("N" if size < 0 else str(size) for size in fixed)
            raise ValueError(
                f"the input {name!r} has sizes that change from call to call: give "
                f"them with --shape {name}={pattern}"
            )
        return fixed
    wanted = shapes[name]
    fits = len(wanted) == len(fixed) and all(
        size in (-1, asked) for size, asked in zip(fixed, wanted)
    )
    if not fits:
        pattern = "x".join("N" if size < 0 else str(size) for size in fixed)
        raise ValueError(
            f"--shape {name}={spell(wanted)} does not fit the package, whose input is "
            f"{pattern or 'a scalar'}"
        )
    return wanted
