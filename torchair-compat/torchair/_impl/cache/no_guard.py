"""Functions outside modules, and methods, that are compiled once and saved in a folder
of the user's choice.

    NoGuardCompiledFunction(function).for_inputs(x).save_to("folder")
    function = NoGuardCompiledFunction.load("folder")  # in another process

A loaded function has none of Dynamo's guards. As with cache_compile, calls compare
sizes and the values that the trace took for constant."""

from __future__ import annotations

import functools
import importlib
import json
import os
import types
from collections.abc import Callable
from typing import Any

import torch

from anabranch.extension import CachedMethod, code_digest

from ..errors import warn_once
from ..options.flat import AnyConfig, tree_of
from .cache_compile import INDEX, TorchAirPolicy

__all__ = ["NoGuardCompiledFunction", "NoGuardCompiledMethod"]

WHOSE = "function.json"  # JSON with the function's name and how it was compiled

Call = Callable[..., Any]


class _SavedPolicy(TorchAirPolicy):
    """The policy of a method in the folder that the user chose. `subject` is the user's
    method, or a function that `_method_of` makes a method of an empty module."""

    def __init__(
        self, subject: Call, folder: str, *, config: AnyConfig | None, dynamic: bool
    ) -> None:
        super().__init__(
            _method_of(subject),
            config=tree_of(config),
            dynamic=dynamic,
        )
        self.subject = subject
        self.folder = folder
        self.reason = ""

    def settings(self) -> dict[str, Any]:
        function = getattr(self.subject, "__func__", self.subject)
        return {**super().settings(), "function": code_digest(function)}

    def place(self, key: str) -> str:
        return self.folder

    def blobs(self, package: str) -> dict[str, bytes]:
        function = getattr(self.subject, "__func__", self.subject)
        name = [function.__module__, function.__qualname__]
        known = {"function": name, "dynamic": self.dynamic}
        return {WHOSE: json.dumps(known).encode()}

    def skip(self, reason: str) -> None:
        self.reason = reason

    def broken(self, path: str, reason: str) -> None:
        raise ValueError(f"{self.folder} can't be loaded: {reason}")

    def outgrown(self) -> bool:
        """Keeps the entry: the folder is the user's."""
        warn_once(
            f"{self.name} is compiled again: {self.folder} is not for these arguments"
        )
        return False

    def load(self) -> Call:
        """Reads the folder. The first call checks its arguments."""
        if not os.path.isfile(os.path.join(self.folder, INDEX)):
            raise ValueError(f"Cache file {self.folder} is not exists")
        return CachedMethod(self).callable()


class _Holder(torch.nn.Module):
    """The empty module that a wrapped function becomes a method of."""


def _method_of(subject: Call) -> types.MethodType:
    owner = getattr(subject, "__self__", None)
    if isinstance(subject, types.MethodType) and isinstance(owner, torch.nn.Module):
        return subject

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        return subject(*args, **kwargs)

    call.__qualname__ = getattr(subject, "__qualname__", "call")
    return types.MethodType(call, _Holder())


class _NoGuardCompiled:
    def __init__(
        self, func: Call, *, config: AnyConfig | None = None, dynamic: bool = True
    ) -> None:
        self.func = func
        self.config = config
        self.dynamic = dynamic
        self._inputs: tuple[Any, Any] | None = None

    def for_inputs(self, *args: Any, **kwargs: Any) -> _NoGuardCompiled:
        """Sets the inputs of the trace, once before each save_to. RuntimeError: they
        are set already."""
        if self._inputs is not None:
            raise RuntimeError("for_inputs was called already; call save_to now")
        self._inputs = args, kwargs
        return self

    def save_to(self, cache_file: str) -> Any:
        """Runs the function and saves the compiled program to a folder that must not
        exist. Returns the function's result. ValueError: the folder exists.
        RuntimeError: for_inputs was not called, or the program cannot be saved."""
        if self._inputs is None:
            raise RuntimeError("call for_inputs before each save_to")
        folder = os.path.abspath(cache_file)
        if os.path.exists(folder):
            raise ValueError(f"Cache file {folder} is already exists")
        args, kwargs = self._inputs
        self._inputs = None
        torch._dynamo.reset()
        saved = _SavedPolicy(
            self.func, folder, config=self.config, dynamic=self.dynamic
        )
        result = CachedMethod(saved).callable()(*args, **kwargs)
        if not os.path.isfile(os.path.join(folder, INDEX)):
            reason = saved.reason or "the folder can't be written"
            raise RuntimeError(f"{self.func} can't be saved to {folder}: {reason}")
        return result


class NoGuardCompiledFunction(_NoGuardCompiled):
    """Compiles a function and saves it for other processes."""

    def __init__(
        self, func: Call, *, config: AnyConfig | None = None, dynamic: bool = True
    ) -> None:
        if not isinstance(func, types.FunctionType):
            text = f"Trying cache non-function {func}"
            raise ValueError(text)  # noqa: TRY004 - as torchair does
        super().__init__(func, config=config, dynamic=dynamic)

    @staticmethod
    def load(
        cache_bin: str, *, func: Call | None = None, config: AnyConfig | None = None
    ) -> Call:
        """The saved function. It is found by its module and name; a function that is
        local to another one has to be given as `func`. ValueError: there is no such
        folder, or the function has changed."""
        known = _read(cache_bin)
        function = func or _find(*known["function"])
        return _loaded(function, cache_bin, known, config)


class NoGuardCompiledMethod(_NoGuardCompiled):
    """Compiles a method and saves it for other processes."""

    def __init__(
        self, func: Call, *, config: AnyConfig | None = None, dynamic: bool = True
    ) -> None:
        if not isinstance(func, types.MethodType):
            text = f"Trying cache non-method {func}"
            raise ValueError(text)  # noqa: TRY004 - as torchair does
        super().__init__(func, config=config, dynamic=dynamic)

    @staticmethod
    def load(cache_bin: str, *, self: Any, config: AnyConfig | None = None) -> Call:
        """The saved method, of the object `self`. ValueError: there is no such folder,
        or the method has changed."""
        known = _read(cache_bin)
        name = known["function"][1].rpartition(".")[2]
        return _loaded(getattr(self, name), cache_bin, known, config)


def _read(cache_bin: str) -> dict[str, Any]:
    path = os.path.join(os.path.abspath(cache_bin), WHOSE)
    if not os.path.isfile(path):
        raise ValueError(f"Cache file {cache_bin} is not exists")
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def _find(module: str, name: str) -> Call:
    try:
        found = importlib.import_module(module)
        return functools.reduce(getattr, name.split("."), found)  # type: ignore[return-value]
    except (ImportError, AttributeError) as error:
        raise ValueError(
            f"there is no {module}.{name} to be found: give the function, load(...,"
            " func=function)"
        ) from error


def _loaded(
    subject: Call, cache_bin: str, known: dict[str, Any], config: AnyConfig | None
) -> Call:
    folder = os.path.abspath(cache_bin)
    saved = _SavedPolicy(subject, folder, config=config, dynamic=known["dynamic"])
    return saved.load()
