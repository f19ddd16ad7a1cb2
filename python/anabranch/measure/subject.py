"""Finds what to measure: a package's folder, or a model that a function makes.

A package is called with NumPy arrays and needs no PyTorch. A function is named as
`FILE.py`, `FILE.py:function` or `module:function`. It returns a model and its inputs: a
tuple of positional arguments, or a dict of named ones."""

from __future__ import annotations

import dataclasses
import importlib
import importlib.util
import inspect
import os
import sys
import traceback
from collections.abc import Callable, Mapping
from typing import Any

FUNCTION = "workload"


class SubjectError(ValueError):
    """The name leads to no model, or its function gives none."""


@dataclasses.dataclass(frozen=True)
class Model:
    """A callable and its arguments, as the function returned them."""

    name: str
    model: Callable[..., Any]
    positional: tuple[Any, ...]
    named: Mapping[str, Any]

    def parameters(self) -> dict[str, Any]:
        """The arguments by the names of their parameters."""
        forward = getattr(self.model, "forward", self.model)
        signature = inspect.signature(forward)
        signature.bind(*self.positional, **self.named)
        names: list[str] = []
        for parameter in signature.parameters.values():
            if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
                rest = range(len(self.positional) - len(names))
                names += [f"{parameter.name}{number}" for number in rest]
            elif parameter.kind is not inspect.Parameter.KEYWORD_ONLY:
                names.append(parameter.name)
        return dict(zip(names, self.positional)) | dict(self.named)


def is_package(name: str) -> bool:
    return os.path.isdir(name)


def load_model(name: str) -> Model:
    """The model that the function with this name makes. SubjectError: what is wrong
    with the name, the function or its result."""
    function = _function(name)
    try:
        made = function()
    except Exception as error:
        raise SubjectError(f"{name}: the function failed{_place(error)}") from error
    if not isinstance(made, tuple) or len(made) != 2:
        raise SubjectError(
            f"{name}: the function must return a model and its inputs, got "
            f"{type(made).__name__}"
        )
    model, inputs = made
    if not callable(model):
        raise SubjectError(
            f"{name}: the model must be callable, got {type(model).__name__}"
        )
    if getattr(model, "training", False):
        raise SubjectError(f"{name}: the model is in training mode: call model.eval()")
    if isinstance(inputs, Mapping):
        found = Model(name, model, (), dict(inputs))
    elif isinstance(inputs, tuple | list):
        found = Model(name, model, tuple(inputs), {})
    else:
        raise SubjectError(
            f"{name}: the inputs must be a tuple or a dict, got {type(inputs).__name__}"
        )
    try:
        found.parameters()
    except TypeError as error:
        raise SubjectError(
            f"{name}: the inputs do not fit the model: {error}"
        ) from error
    return found


def _function(name: str) -> Callable[[], Any]:
    place, colon, function = name.rpartition(":")
    if not colon:
        place, function = name, FUNCTION
    if place.endswith(".py"):
        module = _run_file(place)
    elif colon:
        module = _import(place)
    else:
        raise SubjectError(
            f"{name!r} is no package's folder, and no FILE.py, FILE.py:function or "
            "module:function that gives a model"
        )
    found = getattr(module, function, None)
    if not callable(found):
        raise SubjectError(
            f"{place} has no function {function!r}, which would return a model and "
            "its inputs"
        )
    return found


def _run_file(path: str) -> Any:
    if not os.path.isfile(path):
        raise SubjectError(f"there is no file {path}")
    # A name that no other module has.
    name = f"workload_{os.path.splitext(os.path.basename(path))[0]}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # A file that Python runs can import modules of its folder.
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise SubjectError(f"{path} can't be run{_place(error)}") from error
    return module


def _import(name: str) -> Any:
    sys.path.insert(0, os.getcwd())
    try:
        return importlib.import_module(name)
    except Exception as error:
        raise SubjectError(f"{name} can't be imported{_place(error)}") from error


def _place(error: Exception) -> str:
    """Line and text of an error, in the user's own code."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f" at {frames[-1].filename}:{frames[-1].lineno}" if frames else ""
    return f"{where}: {type(error).__name__}: {error}"
