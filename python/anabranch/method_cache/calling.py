"""Says how a call of Dynamo's graph becomes a call of the program, and how the
program's results become the graph's.

AOTAutograd wraps the function that a backend returns. A replay runs without this
wrapper, so a Calling records what the wrapper would do: save writes it, start does it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from ..describe.views import Alias


@dataclasses.dataclass(frozen=True)
class Calling:
    """The steps of a call besides the run of the program. Positions count the arguments of
    Dynamo's graph."""

    arguments: int  # the number of arguments
    passed: list[int]  # the argument that each input of the program gets
    copied: list[int]  # inputs of the program that a call makes contiguous
    views: list[tuple[int, str, list[int]]]  # output, method, argument
    aliases: list[Alias]  # outputs that the caller makes or lays out
    # Per output: ["result"], ["input", position] or ["view", position, distance].
    outputs: list[list[Any]]
    inputs: list[dict[str, Any]]  # position, name, dtype, shape, strides, source
    # Conditions on several sizes: an expression, its names, and their positions.
    guards: list[tuple[str, list[str], list[int]]]
    guards_by_source: list[str]  # conditions on sizes that the graph does not use
    constants: list[tuple[int, str]]  # position and hash of each frozen argument

    def as_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, saved: Mapping[str, Any]) -> Calling:
        rows = {
            "views": [tuple(row) for row in saved["views"]],
            "aliases": [
                Alias(**{**row, "geometry": tuple(row["geometry"])})
                for row in saved["aliases"]
            ],
        }
        return cls(**{**saved, **rows})
