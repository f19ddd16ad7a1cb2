"""Runs a graph for the frozen weights that calls pass.

A saved graph meets weights of another process, and Dynamo keeps no guard on the identity
of weights that it saves. So the graph itself looks at the weights of each call, and has
a function for each model: equal layers share one saved graph."""

from __future__ import annotations

import dataclasses
import threading
import weakref
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any

import torch

from .. import _C
from ..errors import SavedGraphError

Call = Callable[[list[Any]], Sequence[Any]]
# Makes the function for these weights; whether they have the values that were saved.
Make = Callable[[Sequence[torch.Tensor], bool], Call]


@dataclasses.dataclass(frozen=True)
class Weight:
    """A frozen weight: its name in the description, its position in a call, and what was
    packed: dtype and shape, and a hash of the value."""

    name: str
    label: str
    position: int
    kind: str
    hash: str

    def check_kind(self, tensor: torch.Tensor) -> None:
        """SavedGraphError: the tensor has another dtype or shape."""
        if (found := kind_of(tensor)) != self.kind:
            raise SavedGraphError(
                f"the saved graph has a frozen weight {self.label} of {self.kind}, and"
                f" the call passes {found}; compile the model again"
            )

    def has_value(self, tensor: torch.Tensor) -> bool:
        return hash_of(tensor) == self.hash


def kind_of(tensor: torch.Tensor) -> str:
    return f"{tensor.dtype} {list(tensor.shape)}"


def hash_of(tensor: torch.Tensor) -> str:
    return _C.hash_tensor(tensor.detach().contiguous())


class ForEachModel:
    """The functions of one graph, by the weights that they were made for. A function
    goes when one of its weights does."""

    def __init__(self, weights: Sequence[Weight], make: Make) -> None:
        self.weights = weights
        self.make = make
        self.take = itemgetter(*(weight.position for weight in weights))
        self.calls: dict[tuple[int, ...], Call] = {}
        self.watching: dict[tuple[int, ...], list[weakref.ref[torch.Tensor]]] = {}
        self.lock = threading.Lock()

    def __call__(self, arguments: list[Any]) -> Sequence[Any]:
        tensors = self._taken(arguments)
        call = self.calls.get(tuple(map(id, tensors)))
        if call is None:
            call = self._made(tensors)
        return call(arguments)

    def _taken(self, arguments: list[Any]) -> tuple[torch.Tensor, ...]:
        taken = self.take(arguments)
        return taken if len(self.weights) > 1 else (taken,)

    def _made(self, tensors: Sequence[torch.Tensor]) -> Call:
        with self.lock:
            key = tuple(map(id, tensors))
            if (call := self.calls.get(key)) is None:
                pairs = list(zip(self.weights, tensors))
                for weight, tensor in pairs:
                    weight.check_kind(tensor)
                are_saved = all(weight.has_value(tensor) for weight, tensor in pairs)
                call = self.make(tensors, are_saved)
                self.add(tensors, call)
            return call

    def add(self, tensors: Sequence[torch.Tensor], call: Call) -> None:
        """Runs `call` for calls that pass these weights."""
        key = tuple(map(id, tensors))
        mine = weakref.ref(self)

        def forget(_: object) -> None:
            if (this := mine()) is not None:
                this.calls.pop(key, None)
                this.watching.pop(key, None)

        self.watching[key] = [weakref.ref(tensor, forget) for tensor in tensors]
        self.calls[key] = call
