"""The names of a package's arguments and results, and how they are nested. Needs no
PyTorch."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from . import trees


def read_signature(folder: str) -> Signature:
    """The signature of the package in this folder. ValueError: it was not exported."""
    with open(os.path.join(folder, "manifest.json"), encoding="utf-8") as file:
        manifest = json.load(file)
    if "signature" not in manifest:
        raise ValueError(f"{folder} has no signature: anabranch.export writes one")
    return Signature(manifest["signature"])


class Signature:
    """The names of a package's arguments and results, and how they are nested."""

    def __init__(self, described: Mapping[str, Any]) -> None:
        self.inputs: list[str] = [entry["name"] for entry in described["inputs"]]
        self.outputs: list[str] = list(described["outputs"])
        self.states = [n for n, e in enumerate(described["inputs"]) if e["state"]]
        self.parameters: dict[str, Any] = {}
        for parameter in described.get("parameters", []):
            trees.check(parameter["tree"], len(self.inputs))
            self.parameters[parameter["name"]] = parameter
        self.results = described.get("results", {"tuple": []})
        trees.check(self.results, len(self.outputs))

        # If the positional arguments are the inputs, in order, a call needs no binding.
        self.is_plain = not self.states and [
            p["tree"] for p in self.parameters.values() if not p.get("keyword")
        ] == list(range(len(self.inputs)))

    def bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Any]:
        """The inputs in order, from the arguments of a call. Inputs that are states
        stay None. TypeError: an argument is missing, unknown or given twice."""
        if self.is_plain and not kwargs and len(args) == len(self.inputs):
            return list(args)
        values: list[Any] = [None] * len(self.inputs)
        names = list(self.parameters)
        positional = [n for n in names if not self.parameters[n].get("keyword")]
        if len(args) > len(positional):
            raise TypeError(
                f"expected at most {len(positional)} positional arguments, "
                f"got {len(args)}"
            )
        given = dict(zip(positional, args))
        for name, value in kwargs.items():
            if name not in self.parameters:
                known = ", ".join(names) or "none"
                raise TypeError(f"unknown argument {name!r}; known: {known}")
            if name in given:
                raise TypeError(f"the argument {name!r} is given twice")
            given[name] = value
        for name, parameter in self.parameters.items():
            tree = parameter["tree"]
            # The caller may leave a fixed value out.
            if name not in given and isinstance(tree, dict) and "value" in tree:
                continue
            if name not in given:
                raise TypeError(f"the argument {name!r} is missing")
            trees.take(tree, given[name], name, values.__setitem__)
        return values

    def arguments(
        self, values: Mapping[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments that `bind` would turn into these values; the inverse of
        `bind`."""
        flat = [values.get(name) for name in self.inputs]
        if self.is_plain:
            return tuple(flat), {}
        trees_of = {name: p["tree"] for name, p in self.parameters.items()}
        return (), {name: trees.build(tree, flat) for name, tree in trees_of.items()}
