"""A compiled graph together with the files of its package.

A process that loads it writes the files to a private folder and maps them from there.
The description comes along: frozen weights of other values are packed from it."""

from __future__ import annotations

import dataclasses
import os
import weakref
from collections.abc import Sequence

import torch
import torch.fx

from .. import scratch
from ..config import Config, environment
from ..describe.description import Description
from ..packages import frozen, function, package
from ..packages.function import Call
from ..packages.refill import Refill
from ..report import count
from ..shapes.gears import Binding
from .weights import ForEachModel, Weight, hash_of, kind_of


@dataclasses.dataclass
class Program:
    """`described` is without frozen weights: calls pass those of `weights`."""

    described: Description
    config: Config
    bindings: list[Binding]
    files: dict[str, bytes]
    weights: list[Weight]

    def start(self) -> Call:
        """A function of the graph's arguments, without compiling."""
        if self.weights:
            return ForEachModel(self.weights, self.for_weights)
        return self._load(self.described)

    def for_weights(self, tensors: Sequence[torch.Tensor], are_saved: bool) -> Call:
        named = {weight.name: t for weight, t in zip(self.weights, tensors)}
        values = {name: tensor.detach() for name, tensor in named.items()}
        described = dataclasses.replace(
            self.described,
            constants=self.described.constants | values,
            owners={name: weakref.ref(tensor) for name, tensor in named.items()},
        )
        if are_saved:
            return self._load(described)
        built = function.build(described, self._settings(), self.bindings)
        assert built is not None  # an option that stops the compiler saves no graph
        return built.call

    def _load(self, described: Description) -> Call:
        config = self._settings()
        weights = frozen.note(described)
        with scratch.folder() as folder:
            path = os.path.join(folder, "package")
            _write(self.files, path)
            executable = package.load(path, described, config, check_hashes=False)
            refill = None if weights is None else Refill(path, described.owners)
        count(graphs=1, loaded=1)
        return function.start(
            executable, described, config, self.bindings, weights, refill
        )

    def _settings(self) -> Config:
        """The options of the graph; the environment of this process wins."""
        return dataclasses.replace(self.config, **environment())


def read_files(folder: str) -> dict[str, bytes]:
    """The files of a package, by their names."""
    files = {}
    for name in sorted(os.listdir(folder)):
        with open(os.path.join(folder, name), "rb") as file:
            files[name] = file.read()
    return files


def _write(files: dict[str, bytes], folder: str) -> None:
    os.makedirs(folder, 0o700)
    for name, content in files.items():
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        with os.fdopen(os.open(os.path.join(folder, name), flags, 0o600), "wb") as file:
            file.write(content)


def frozen_weights(
    module: torch.fx.GraphModule, described: Description
) -> dict[Weight, torch.Tensor]:
    """The frozen weights of a graph, each with its owner's tensor."""
    placeholders = [n.name for n in module.graph.nodes if n.op == "placeholder"]
    labels = {entry["name"]: entry["label"] for entry in described.graph["inputs"]}
    found: dict[Weight, torch.Tensor] = {}
    for name, owner in described.owners.items():
        if (tensor := owner()) is not None:
            value = described.constants[name]
            position = placeholders.index(name)
            weight = Weight(
                name, labels[name], position, kind_of(value), hash_of(value)
            )
            found[weight] = tensor
    return found


def portable(described: Description) -> Description:
    """The description without the values of frozen weights."""
    own = {n: v for n, v in described.constants.items() if n not in described.owners}
    return dataclasses.replace(described, constants=own, owners={}, hashes={})
