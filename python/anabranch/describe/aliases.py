"""Finds outputs that share memory with an input or with another output.

AOTAutograd recreates such outputs as views of the inputs that it was given. It reads
their strides and offsets from the graph's results, and a copy would give it wrong ones.
So the program leaves these outputs out, and `views` makes them from the inputs and from
the other results."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import torch
import torch.fx

from .symbols import Expr, integer, same
from .tensors import foreign_strides
from .views import Alias
from .written import have_same_layout, is_dense, storage


@dataclasses.dataclass(frozen=True)
class _Owner:
    """The input or output that a storage belongs to."""

    base: int
    of_output: bool
    value: torch.Tensor


class Aliases:
    """The outputs of a graph that are views, each with its base."""

    def __init__(self) -> None:
        self.found: list[Alias] = []
        # symbolic numbers that the program returns for views, besides its results
        self.numbers: list[Expr] = []
        self._owners: dict[int, _Owner] = {}

    def own_input(self, position: int, value: Any) -> None:
        """Registers a placeholder. Where several placeholders share memory, the first
        owns it."""
        if is_dense(value):
            self._owners.setdefault(storage(value), _Owner(position, False, value))

    def own_mutation(self, target: Any, value: Any) -> None:
        """Registers a value that is written into an input: it is the input's memory if
        both have the same sizes and strides."""
        owner = self._owners.get(storage(target)) if is_dense(target) else None
        if owner and is_dense(value) and have_same_layout(target, value):
            base = dataclasses.replace(owner, value=value)
            if owner.value is target:
                self._owners.setdefault(storage(value), base)

    def own_outputs(self, values: Sequence[Any]) -> None:
        """Registers outputs that are the whole of their storage."""
        for position, value in enumerate(values):
            if not is_dense(value) or foreign_strides(value) is not None:
                continue
            size = value.numel() * value.element_size()
            whole = same(value.untyped_storage().nbytes(), size)
            if whole and same(value.storage_offset(), 0):
                owner = _Owner(position, True, value)
                self._owners.setdefault(storage(value), owner)

    def take(self, position: int, value: Any) -> bool:
        """Takes an output out of the program's results if it is a view. Returns whether
        it is."""
        owner = self._owners.get(storage(value)) if is_dense(value) else None
        if owner is None or owner.value.dtype != value.dtype:
            return False
        if owner.of_output and owner.base == position:
            return False
        distance = value.storage_offset() - owner.value.storage_offset()
        geometry = self._geometry(value.shape, value.stride(), distance)
        self.found.append(Alias(position, owner.base, owner.of_output, geometry))
        return True

    def lay_out(
        self, position: int, shape: Sequence[Any], strides: Sequence[Any]
    ) -> None:
        """Notes that an output has to be copied to its strides: the program returns it
        contiguous."""
        geometry = self._geometry(shape, strides, 0)
        self.found.append(Alias(position, position, True, geometry, copied=True))

    def lays_out(self, position: int) -> bool:
        """Whether `lay_out` has noted this output."""
        return any(alias.copied and alias.output == position for alias in self.found)

    def expand(self, position: int, value: torch.Tensor) -> None:
        """Notes that an output has to be expanded to symbolic sizes, or after its copy:
        the program returns it with one element along the dimensions of stride zero."""
        geometry = self._geometry(value.shape, value.stride(), 0)
        self.found.append(Alias(position, position, True, geometry))

    def _geometry(
        self, shape: Sequence[Any], strides: Sequence[Any], distance: Any
    ) -> tuple[int | None, ...]:
        geometry: list[int | None] = []
        for number in (*shape, *strides, distance):
            known = integer(number)
            geometry.append(known if isinstance(known, int) else None)
            if geometry[-1] is None:
                self.numbers.append(known)
        return tuple(geometry)
