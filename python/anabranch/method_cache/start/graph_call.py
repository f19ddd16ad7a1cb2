"""Makes Dynamo's graph a function of its arguments: runs the executable, and does what
AOTAutograd's wrapper would do around it."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import torch

from ...describe.views import restore
from ..calling import Calling
from ..lookup.argument_sizes import Mismatch

Call = Callable[..., Any]


def graph_call(executable: Call, calling: Calling) -> Call:
    """Dynamo's graph as a function of its arguments: it runs the executable and does
    what AOTAutograd's wrapper would do."""
    boxed: Call = executable
    if calling.aliases:
        boxed = restore(executable, calling.aliases)
    guards = [compile_guard(*row) for row in calling.guards]
    plan = list(enumerate(calling.outputs))
    views = [(i, *row[1:]) for i, row in plan if row[0] == "view"]
    inputs = [(i, row[1]) for i, row in plan if row[0] == "input"]
    if not (calling.aliases or guards or views or inputs):
        return executable

    def call(*arguments: Any) -> Any:
        for holds, places, text in guards:
            if not holds(*(arguments[place] for place in places)):
                raise Mismatch(f"the graph was traced for sizes with {text}")
        results = list(boxed(list(arguments)))
        for output, base, distance in views:
            results[output] = view_like(arguments[base], results[output], distance)
        for output, base in inputs:
            results[output] = arguments[base]
        return results

    return call


def compile_guard(text: str, names: list[str], places: list[int]) -> Any:
    source = f"lambda {', '.join(names)}: {text}"
    known = {"__builtins__": {}, "math": importlib.import_module("math")}
    known |= {"min": min, "max": max, "abs": abs}
    return eval(source, known), places, text


def view_like(base: torch.Tensor, result: torch.Tensor, distance: int) -> torch.Tensor:
    """A view of `base` with the sizes and strides of `result`, `distance` elements in."""
    if result.dtype != base.dtype:
        if result.is_complex() and not base.is_complex():
            base = torch.view_as_complex(base.view(*base.shape[:-1], -1, 2))
        elif base.is_complex() and not result.is_complex():
            base = torch.view_as_real(base)
        else:
            base = base.view(result.dtype)
    start = base.storage_offset() + distance
    return base.as_strided(result.shape, result.stride(), start)
