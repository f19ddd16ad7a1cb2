"""BREAK_GRAPH_OP_LIST: breaks the graph at operators that the environment names."""

from __future__ import annotations

import functools
import operator
import os
from collections.abc import Callable
from typing import Any

import torch
from torch._dynamo.exc import unimplemented
from torch._dynamo.variables import (
    BuiltinVariable,
    SliceVariable,
    TensorVariable,
    TupleVariable,
)

from ..errors import warn_once

__all__ = ["install"]

VARIABLE = "BREAK_GRAPH_OP_LIST"


def _break(what: str) -> None:
    unimplemented(
        gb_type="graph break by BREAK_GRAPH_OP_LIST",
        context=what,
        explanation=f"the environment variable {VARIABLE} names {what}",
        hints=[f"Take {what} out of {VARIABLE}."],
    )


def _break_modules(kind: type[torch.nn.Module], what: str) -> None:
    """Breaks at modules of this kind: PyTorch runs them outside graphs."""
    kind.forward = torch._dynamo.disable(  # type: ignore[method-assign]
        kind.forward, reason=f"{VARIABLE} names {what}"
    )


def _reads_slice(key: Any) -> bool:
    if isinstance(key, TupleVariable):
        return any(map(_reads_slice, key.items))
    return isinstance(key, SliceVariable)


def _break_slices() -> None:
    """Breaks at slices of a tensor. Dynamo reads them through the operator and as a
    method."""
    _break_method("__getitem__", "SLICE", lambda args: _reads_slice(args[0]))
    before = BuiltinVariable.call_function

    @functools.wraps(before)
    def call(self: Any, tx: Any, args: Any, kwargs: Any) -> Any:
        if (
            self.fn is operator.getitem
            and isinstance(args[0], TensorVariable)
            and _reads_slice(args[1])
        ):
            _break("SLICE")
        return before(self, tx, args, kwargs)

    BuiltinVariable.call_function = call  # type: ignore[method-assign]


def _break_setitems() -> None:
    _break_method("__setitem__", "SETITEM", lambda args: True)


def _break_method(name: str, what: str, breaks: Callable[[Any], bool]) -> None:
    before = TensorVariable.call_method

    @functools.wraps(before)
    def call(self: Any, tx: Any, method: str, args: Any, kwargs: Any) -> Any:
        if method == name and args and breaks(args):
            _break(what)
        return before(self, tx, method, args, kwargs)

    TensorVariable.call_method = call  # type: ignore[method-assign]


_BREAKS: dict[str, Callable[[], None]] = {
    "SLICE": _break_slices,
    "SETITEM": _break_setitems,
    "NN.LINEAR": lambda: _break_modules(torch.nn.Linear, "NN.LINEAR"),
    "NN.CONV3D": lambda: _break_modules(torch.nn.Conv3d, "NN.CONV3D"),
}


def install() -> None:
    """Reads the environment variable, once a process. Warns of names that it does not
    know."""
    for name in os.environ.get(VARIABLE, "").split(","):
        wanted = name.strip().upper()
        if wanted in _BREAKS:
            _BREAKS[wanted]()
        elif wanted:
            known = ", ".join(_BREAKS)
            warn_once(f"{VARIABLE}: {name.strip()!r} is none of {known}")
