"""A described graph: the JSON for the compiler, and what its callers need to know."""

from __future__ import annotations

import dataclasses
import weakref
from typing import Any

import torch

from .views import Alias


@dataclasses.dataclass(frozen=True)
class InputSource:
    """Where the value of a placeholder comes from."""

    label: str
    kind: str = "input"  # "parameter", "buffer"
    constant: torch.Tensor | None = None  # the value, if it is frozen
    # A weight that calls pass. It seldom changes, and calls say whether it did.
    watched: bool = False
    # The user's tensor that is watched, or that a frozen value was taken from; it may
    # change.
    owner: weakref.ref[torch.Tensor] | None = None
    # Dynamo's name of the source: an expression over the locals `L` and the globals
    # `G`.
    expression: str = ""
    # A Python float, which Dynamo passes as a tensor of f64.
    number: bool = False
    # The name of the constant in the graph around the region that has this input.
    outer_constant: str = ""

    def as_input(self) -> InputSource:
        """The same source, neither frozen nor watched."""
        return dataclasses.replace(self, constant=None, watched=False, owner=None)


# (output, "expand", "permute" or "item", argument of the method): the program returns
# this output in a simpler form, and the caller makes the view, or the number.
OutputView = tuple[int, str, list[int]]


@dataclasses.dataclass
class Description:
    graph: dict[str, Any]
    constants: dict[str, torch.Tensor]
    arguments: int  # the number of arguments of a call
    passed: list[int]  # placeholders that are passed at a call, by position
    copied: list[int]  # of those, by position among them: made contiguous first
    views: list[OutputView]  # of outputs, applied by the caller
    aliases: list[Alias]  # outputs that the program leaves out
    # The user's tensors that constants were copied from, by the names of the constants.
    owners: dict[str, weakref.ref[torch.Tensor]] = dataclasses.field(
        default_factory=dict
    )
    # Hashes of the values of constants, by their names, once a key was made of them.
    hashes: dict[str, str] = dataclasses.field(default_factory=dict)
    # The blockings of products that tuning found, by the keys of their kernels.
    blockings: dict[str, str] = dataclasses.field(default_factory=dict)
    # Positions of arguments that a collective of another graph may still be writing.
    awaited: list[int] = dataclasses.field(default_factory=list)
