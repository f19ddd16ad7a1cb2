"""What the arguments and results of a package are called, and how they hang
together. Needs no PyTorch."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from . import trees


def read_signature(folder: str) -> Signature:
    """Of the package in this folder; ValueError if it was not exported."""
    with open(os.path.join(folder, "manifest.json"), encoding="utf-8") as file:
        manifest = json.load(file)
    if "signature" not in manifest:
        raise ValueError(f"{folder} has no signature: anabranch.export writes one")
    return Signature(manifest["signature"])


class Signature:
    """What the arguments and results of a package are called."""

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

        # Positional arguments that are the inputs, in order, need no binding.
        self.is_plain = not self.states and [
            p["tree"] for p in self.parameters.values() if not p.get("keyword")
        ] == list(range(len(self.inputs)))

    def bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Any]:
        """The inputs in order; those of states stay None."""
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
            # A fixed value need not be repeated.
            if name not in given and isinstance(tree, dict) and "value" in tree:
                continue
            if name not in given:
                raise TypeError(f"the argument {name!r} is missing")
            trees.take(tree, given[name], name, values.__setitem__)
        return values

    def arguments(
        self, values: Mapping[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """What `bind` takes apart into these values, by the inputs' names."""
        flat = [values.get(name) for name in self.inputs]
        if self.is_plain:
            return tuple(flat), {}
        trees_of = {name: p["tree"] for name, p in self.parameters.items()}
        return (), {name: trees.build(tree, flat) for name, tree in trees_of.items()}
