"""Follows frozen weights: the tensors of the user that constants were copied from.

The executable holds the tensors weakly. Before each call it compares their versions and
addresses (python/bindings/calls/FrozenWeights.h). If a tensor was written or replaced,
the weights are packed again, or `freeze="strict"` makes it an error. docs/weights.md
says which writes cannot be seen."""

from __future__ import annotations

import dataclasses
import os
import threading
import weakref
from collections.abc import Callable, Sequence

import torch

from .. import _C, scratch
from ..config import Config
from ..describe.description import Description
from ..describe.inputs import with_known_values
from ..errors import FrozenWeightError
from ..report import count, log, say
from ..shapes.gears import Binding
from . import cache, package
from .optimizers import count_fused_steps
from .refill import Refill
from .refreshing import Packed, owner_hashes

# Calls with changed weights, one after another, until a warning says that freezing
# costs more than it saves.
CHANGES_TO_WARN = 8


def note(described: Description) -> _C.FrozenWeights | None:
    """The state of the user's tensors, taken before their values are read; None without
    frozen weights. From here on, the description's constants are those tensors."""
    found = {name: owner() for name, owner in described.owners.items()}
    living = {name: tensor for name, tensor in found.items() if tensor is not None}
    described.owners = {name: described.owners[name] for name in living}
    if not living:
        return None
    count_fused_steps()
    weights = _C.FrozenWeights(list(living.values()))
    for name, tensor in living.items():
        value = tensor.detach()
        if _has_layout_of(value, described.constants[name]):
            described.constants[name] = value
    return weights


def _has_layout_of(value: torch.Tensor, other: torch.Tensor) -> bool:
    return (value.dtype, value.shape, value.stride()) == (
        other.dtype,
        other.shape,
        other.stride(),
    )


class Follower:
    """Keeps the weights of one executable equal to the user's tensors."""

    def __init__(
        self,
        executable: _C.Executable,
        described: Description,
        config: Config,
        bindings: Sequence[Binding],
        weights: _C.FrozenWeights,
        refill: Refill | None,
    ) -> None:
        """`weights`: the result of `note`, called before the executable was made."""
        self.executable = weakref.ref(executable)
        self.refill = refill
        self.config = config
        self.bindings = bindings
        self.weights = weights
        self.names = list(described.owners)
        own = {n: v for n, v in described.constants.items() if n not in self.names}
        self.described = dataclasses.replace(described, constants=own, hashes={})
        # Called after programs with the old weights were removed.
        self.forget: Callable[[], object] = lambda: None
        self.changes = 0
        self.lock = threading.Lock()
        tensors = [tensor for tensor in weights.tensors() if tensor is not None]
        self.packed = Packed(tensors, owner_hashes(described), self.pack_again)
        executable.follow(weights, self)

    def __call__(self) -> None:
        """Called before a call that finds changed weights, while nothing has run yet."""
        with self.lock:
            if not self.weights.unchanged():
                self._follow()

    def _follow(self) -> None:
        labels = self._labels()
        changed = [labels[number] for number in self.weights.changed()]
        if self.config.freeze == "strict":
            raise FrozenWeightError(
                f"{_list(changed)} changed, and freeze='strict' forbids it"
            )
        self._pack()
        self._say(changed)

    def pack_again(self) -> None:
        """Packs the present values, whatever the versions say."""
        with self.lock:
            self._pack()

    def _pack(self) -> None:
        if (executable := self.executable()) is None:
            return
        described, weights = self.current()
        self.packed.hashes = owner_hashes(described)
        executable.adopt(self._remade(described), weights)
        self.weights = weights
        self.forget()
        count(repacked=1)

    def _remade(self, described: Description) -> _C.Executable:
        """The program with the constants of `described`."""
        known = self.described.graph["inputs"]
        if self.refill is None or described.graph["inputs"] != known:
            return package.rebuild(described, self.config, self.bindings)
        with scratch.folder() as folder:
            path = os.path.join(folder, "package")
            self.refill.write(described.constants, path)
            return package.load(path, described, self.config, check_hashes=False)

    def current(self) -> tuple[Description, _C.FrozenWeights]:
        """The graph with the current values of the tensors. FrozenWeightError: a tensor
        was freed or has other sizes, so the model needs another graph."""
        tensors = self.weights.tensors()
        labels = self._labels()
        gone = [label for label, t in zip(labels, tensors) if t is None]
        if gone:
            raise FrozenWeightError(f"{_list(gone)} was freed; compile the model again")
        if not self.weights.same_layout():
            raise FrozenWeightError(
                "frozen weights have other sizes, strides or dtypes than those that"
                " were compiled; compile the model again"
            )
        kept = [tensor for tensor in tensors if tensor is not None]
        weights = _C.FrozenWeights(kept)
        values = {name: tensor.detach() for name, tensor in zip(self.names, kept)}
        constants = self.described.constants | values
        graph = with_known_values(self.described.graph, constants)
        return (
            dataclasses.replace(
                self.described, graph=graph, constants=constants, hashes={}
            ),
            weights,
        )

    def _labels(self) -> list[str]:
        by_name = {e["name"]: e["label"] for e in self.described.graph["inputs"]}
        return [by_name[name] for name in self.names]

    def _say(self, changed: list[str]) -> None:
        name = self.described.graph["name"]
        logged = log("info", "repacked", graph=name, weights=changed)
        if self.config.explain and not logged:
            say(f"{name}: {_list(changed)} changed, the weights are packed again")
        self.changes += 1
        if self.changes == CHANGES_TO_WARN:
            cache.warn_once(
                f"frozen {name}",
                f"frozen weights changed {self.changes} times, and each time the graph"
                f" was packed again ({_list(changed)}). Weights that change are"
                " faster without freeze=True",
            )


def follow(
    executable: _C.Executable,
    described: Description,
    config: Config,
    bindings: Sequence[Binding],
    weights: _C.FrozenWeights | None,
    refill: Refill | None = None,
) -> Follower | None:
    """Makes calls of the executable follow changed weights. None: it has no frozen
    weights. `refill` has the files of its package; without them, new values take a
    compilation."""
    if weights is None:
        return None
    return Follower(executable, described, config, bindings, weights, refill)


def _list(labels: Sequence[str]) -> str:
    more = len(labels) - 3
    shown = ", ".join(labels[:3]) + (f" and {more} more" if more > 0 else "")
    return f"the frozen weight{'s' if len(labels) > 1 else ''} {shown}"
