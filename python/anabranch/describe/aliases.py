"""Outputs that share memory with an input or with another output.

AOTAutograd makes such outputs again, as views of what it was given, and reads
their strides and offsets off the graph's results: a copy would lead it astray.
So the program leaves them out, and `views` makes them, as views of the inputs
and of the other results.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import torch
import torch.fx

from .symbols import Expr, integer, same
from .tensors import foreign_strides
from .views import Alias
from .written import is_dense, lie_alike, storage


@dataclasses.dataclass(frozen=True)
class _Owner:
    """Whose memory a storage is."""

    base: int
    of_output: bool
    value: torch.Tensor


class Aliases:
    """Which outputs of a graph are views, and what of."""

    def __init__(self) -> None:
        self.found: list[Alias] = []
        self.numbers: list[Expr] = []  # that the program computes besides
        self._owners: dict[int, _Owner] = {}

    def own_input(self, position: int, value: Any) -> None:
        """A placeholder; where several share memory, the first."""
        if is_dense(value):
            self._owners.setdefault(storage(value), _Owner(position, False, value))

    def own_mutation(self, target: Any, value: Any) -> None:
        """What is written into an input is that input, if it lies alike."""
        owner = self._owners.get(storage(target)) if is_dense(target) else None
        if owner and is_dense(value) and lie_alike(target, value):
            base = dataclasses.replace(owner, value=value)
            if owner.value is target:
                self._owners.setdefault(storage(value), base)

    def own_outputs(self, values: Sequence[Any]) -> None:
        """Outputs that are all there is in their memory."""
        for position, value in enumerate(values):
            if not is_dense(value) or foreign_strides(value) is not None:
                continue
            size = value.numel() * value.element_size()
            whole = same(value.untyped_storage().nbytes(), size)
            if whole and same(value.storage_offset(), 0):
                owner = _Owner(position, True, value)
                self._owners.setdefault(storage(value), owner)

    def take(self, position: int, value: Any) -> bool:
        """Whether this output is left to be made as a view."""
        owner = self._owners.get(storage(value)) if is_dense(value) else None
        if owner is None or owner.value.dtype != value.dtype:
            return False
        if owner.of_output and owner.base == position:
            return False
        distance = value.storage_offset() - owner.value.storage_offset()
        geometry = self._geometry(value, distance)
        self.found.append(Alias(position, owner.base, owner.of_output, geometry))
        return True

    def lay_out(self, position: int, value: torch.Tensor) -> None:
        """The program gives this output contiguous; a copy has its strides."""
        geometry = self._geometry(value, 0)
        self.found.append(Alias(position, position, True, geometry, copied=True))

    def _geometry(self, value: torch.Tensor, distance: Any) -> tuple[int | None, ...]:
        geometry: list[int | None] = []
        for number in (*value.shape, *value.stride(), distance):
            known = integer(number)
            geometry.append(known if isinstance(known, int) else None)
            if geometry[-1] is None:
                self.numbers.append(known)
        return tuple(geometry)
