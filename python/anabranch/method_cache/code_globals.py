"""Says how another process makes the globals that Dynamo's code reads. The recording
holds a recipe for each: save writes it, start follows it."""

from __future__ import annotations

import builtins
import importlib
import sys
import types
from collections.abc import Mapping
from typing import Any

import torch

from .bytecode import global_names, is_plain
from .dynamo_helpers import helper_module
from .recording import NotCacheable

# Dynamo adds globals whose names begin so.
_COMPILED, IMPORTED, _BUILTINS = "__compiled_fn", "__import_", "__builtins_dict__"

# The recipe of the compiled graph, which the caller has.
GRAPH = ["graph"]


def global_recipes(
    code: types.CodeType, globals_: Mapping[str, Any], before: set[str]
) -> dict[str, list[Any]]:
    """For each global that Dynamo added: how to make it."""
    recipes: dict[str, list[Any]] = {}
    for name in sorted(global_names(code)):
        if name not in globals_:
            continue  # a builtin
        value = globals_[name]
        if name.startswith(_COMPILED):
            recipes[name] = GRAPH
        elif name.startswith(_BUILTINS):
            recipes[name] = ["builtins"]
        elif name in before and not name.startswith(IMPORTED):
            continue  # the module's own global, which another process has too
        elif isinstance(value, types.ModuleType):
            if sys.modules.get(value.__name__) is not value:
                raise NotCacheable(f"the module {value.__name__} can't be imported")
            recipes[name] = ["module", value.__name__]
        elif is_plain(value):
            recipes[name] = ["constant", value]
        else:
            recipes[name] = _attribute(name, value)
    if sum(recipe == GRAPH for recipe in recipes.values()) != 1:
        raise NotCacheable("it is not one graph")
    return recipes


def _attribute(name: str, value: Any) -> list[str]:
    if isinstance(value, torch.dtype | torch.layout | torch.memory_format):
        return ["attribute", "torch", str(value).removeprefix("torch.")]
    module = getattr(value, "__module__", None)
    path = getattr(value, "__qualname__", None)
    if isinstance(module, str) and isinstance(path, str):
        try:
            if resolve(module, path) is value:
                return ["attribute", module, path]
        except (ImportError, AttributeError):
            pass
    raise NotCacheable(f"it refers to an object of this process: {name}")


def make_global(recipe: list[Any]) -> Any:
    """The value of a global; the graph is none of these."""
    kind, *words = recipe
    if kind == "builtins":
        return builtins.__dict__
    if kind == "constant":
        return words[0]
    if kind == "module":
        return helper_module(words[0])
    return resolve(*words)


def resolve(module: str, path: str) -> Any:
    """The value at a dotted path in a module."""
    value: Any = importlib.import_module(module)
    for part in path.split("."):
        value = getattr(value, part)
    return value
