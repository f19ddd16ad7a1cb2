"""Makes of an executable the function that AOTAutograd calls: one that follows frozen
weights, gets programs for the shapes that come, and returns views."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from .. import _C
from ..collectives.operators import wait_first
from ..config import Config
from ..describe.description import Description
from ..describe.views import restore
from ..notices import first_calls
from ..shapes import tiers
from ..shapes.gears import Binding
from . import cache, frozen, package, tuning
from .refill import Refill

Call = Callable[[list[Any]], Sequence[Any]]


class Built(NamedTuple):
    executable: _C.Executable
    call: Call


def build(
    described: Description,
    config: Config,
    bindings: Sequence[Binding] = (),
    on_package: Callable[[str, dict[str, Any]], None] | None = None,
) -> Built | None:
    """The function of a graph, compiled or from the cache; None if the compiler was told
    to stop early. `on_package` as of `package.build`."""
    weights = frozen.note(described)
    tuning.choose_blockings(described, config, bindings)
    refill: Refill | None = None

    def found(folder: str, report: dict[str, Any]) -> None:
        nonlocal refill
        if weights is not None:
            refill = Refill(folder, described.owners)
        if on_package is not None:
            on_package(folder, report)

    executable = package.build(described, config, bindings, found)
    if executable is None:
        return None
    call = start(executable, described, config, bindings, weights, refill)
    return Built(executable, call)


def start(
    executable: _C.Executable,
    described: Description,
    config: Config,
    bindings: Sequence[Binding],
    weights: _C.FrozenWeights | None,
    refill: Refill | None,
) -> Call:
    """The function of an executable. `weights`: the result of `frozen.note`, called
    before the values of the weights were read. `refill` has the files of its package."""
    first_calls.watch(executable, described.graph["name"], config.notices)
    follower = frozen.follow(executable, described, config, bindings, weights, refill)
    if config.shapes == "tiered" and not bindings and _may_return(described):
        find = package.find if cache.takes_part(config) else None
        make = package.specialise
        tiers.attach(executable, described, config, make, follower, find)
    call: Call = executable
    if described.aliases:
        call = restore(call, described.aliases)
    if described.awaited:
        call = wait_first(call, described.awaited)
    return call


def _may_return(described: Description) -> bool:
    """Whether the sizes of a call may come again. A size that depends on data, which
    has no hint, seldom does, so a program for it would not pay."""
    return all("hint" in symbol for symbol in described.graph["symbols"])
