"""A described graph: the JSON for the compiler, and what its calls need beside it."""

from __future__ import annotations

import dataclasses
import weakref
from typing import Any

import torch

from .views import Alias


@dataclasses.dataclass(frozen=True)
class InputSource:
    """Where a placeholder's value comes from."""

    label: str
    kind: str = "input"  # "parameter", "buffer"
    constant: torch.Tensor | None = None  # the value, when it is frozen
    # The user's tensor that the value is of, which may change.
    owner: weakref.ref[torch.Tensor] | None = None
    # Dynamo's name of the source, an expression over the locals `L` and globals `G`.
    expression: str = ""


# (output, "expand" or "permute", the method's argument): what the program gives
# back is stored in a simpler order, and this view of it is the output.
OutputView = tuple[int, str, list[int]]


@dataclasses.dataclass
class Description:
    graph: dict[str, Any]
    constants: dict[str, torch.Tensor]
    arguments: int  # how many arguments a call gets
    passed: list[int]  # placeholders that are passed at a call, by position
    copied: list[int]  # of those, by position among them: made contiguous first
    views: list[OutputView]  # of outputs, applied by the caller
    aliases: list[Alias]  # outputs that the program leaves out
    # The user's tensors behind constants, by the names of these.
    owners: dict[str, weakref.ref[torch.Tensor]] = dataclasses.field(
        default_factory=dict
    )
    # How kernels of products are cut up, as tuning found, by their keys.
    blockings: dict[str, str] = dataclasses.field(default_factory=dict)
    # Arguments that a collective of another graph may still be writing, by position.
    awaited: list[int] = dataclasses.field(default_factory=list)
