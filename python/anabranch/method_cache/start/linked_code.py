"""Links Dynamo's code: makes it a function over the globals of the method's module."""

from __future__ import annotations

import itertools
import types
from collections.abc import Callable
from typing import Any

from .. import bytecode, code_globals
from ..recording import Recording, Stale

Call = Callable[..., Any]

_numbers = itertools.count()


class LinkedCode:
    """The code of a recording, for one method. Stale: the method closes over other
    names than the traced one."""

    def __init__(self, recording: Recording, function: Any) -> None:
        self.code = recording.code
        self.function = function
        cells = dict(zip(function.__code__.co_freevars, function.__closure__ or ()))
        if not set(self.code.co_freevars) <= set(cells):
            raise Stale("the method closes over other names")
        self._cells = tuple(cells[name] for name in self.code.co_freevars)
        # Globals that Dynamo added get new names in the module.
        self._names: dict[str, str] = {}
        self._graphs: list[str] = []
        for name, recipe in recording.globals.items():
            if recipe == code_globals.GRAPH:
                self._graphs.append(name)
            else:
                self._names[name] = self.add_global(code_globals.make_global(recipe))

    def add_global(self, value: Any) -> str:
        """Adds a global of a new name to the method's module. Returns the name."""
        name = f"__anabranch_{next(_numbers)}"
        self.function.__globals__[name] = value
        return name

    def drop_global(self, name: str) -> None:
        del self.function.__globals__[name]

    def link(self, graph: str) -> Call:
        """The code as a function of the module and the method's arguments. The global
        with the name `graph` is the graph's call."""
        names = self._names | dict.fromkeys(self._graphs, graph)
        linked = types.FunctionType(
            bytecode.rename(self.code, names),
            self.function.__globals__,
            self.function.__name__,
            self.function.__defaults__,
            self._cells,
        )
        linked.__kwdefaults__ = self.function.__kwdefaults__
        return linked
