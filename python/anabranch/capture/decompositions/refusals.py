"""Finds calls that eager PyTorch refuses, but a trace does not.

PyTorch's kernels check options and dtypes that its meta kernels and decompositions leave
unchecked: `celu` with `alpha=0`, a number that its dtype cannot hold, an operand of
another dtype. A compiled call would return numbers where eager code fails. PyTorch runs a
graph with such a call, so the caller sees eager's own error.

`refused_calls` says which calls of which operators, and `refused_writes` finds writes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.fx
from torch._ops import OpOverload

from .refused_calls import REFUSES


class Refused(Exception):
    """Eager PyTorch refuses a call of the graph."""


def checked(table: Mapping[Any, Callable[..., Any]]) -> dict[Any, Callable[..., Any]]:
    """The table of decompositions, which look at their calls first."""
    found = dict(table)
    for operator in REFUSES.keys() & found.keys():
        found[operator] = _checked(operator, found[operator])
    return found


def _checked(operator: OpOverload, parts: Callable[..., Any]) -> Callable[..., Any]:
    def decomposed(*args: Any, **kwargs: Any) -> Any:
        _check(operator, args, kwargs)
        return parts(*args, **kwargs)

    return decomposed


def check_calls(graph: torch.fx.Graph) -> None:
    """Refused: eager PyTorch refuses a call of this graph."""
    for node in graph.nodes:
        if node.target in REFUSES:
            values = torch.fx.map_arg((node.args, node.kwargs), _value)
            _check(node.target, *values)


def _value(node: torch.fx.Node) -> Any:
    return node.meta.get("val")


def _check(operator: OpOverload, args: Any, kwargs: Any) -> None:
    named = {a.name: a.default_value for a in operator._schema.arguments}
    named |= dict(zip(named, args)) | kwargs
    if REFUSES[operator](named):
        raise Refused(f"eager PyTorch refuses this call of {operator}")
