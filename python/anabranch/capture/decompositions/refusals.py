"""Finds calls that eager PyTorch refuses, but a trace does not.

PyTorch's kernels check options and dtypes that its meta kernels and decompositions leave
unchecked: `celu` with `alpha=0`, a number that its dtype cannot hold, an operand of
another dtype. A compiled call would return numbers where eager code fails. PyTorch runs a
graph with such a call, so the caller sees eager's own error.

`refused_calls` says which calls of which operators."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.fx
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._pytree import tree_leaves

from .refused_calls import REFUSES, dtypes


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


def check_outs(module: torch.fx.GraphModule) -> None:
    """Refused: a call of a Dynamo graph writes its result to an `out` of another dtype.
    Eager PyTorch converts the results of some operators alone; a trace converts all."""
    for part in module.modules():
        if not isinstance(part, torch.fx.GraphModule):
            continue
        for node in part.graph.nodes:
            if node.op == "call_function" and node.kwargs.get("out") is not None:
                _check_out(node)


def _check_out(node: torch.fx.Node) -> None:
    args, given = torch.fx.map_arg((node.args, node.kwargs), _example)
    kwargs = dict(given)
    outs = dtypes(kwargs.pop("out"))
    fakes = [t for t in tree_leaves((args, given)) if isinstance(t, FakeTensor)]
    if not fakes or fakes[0].fake_mode.shape_env is None:
        return
    mode = fakes[0].fake_mode
    try:
        with mode, mode.shape_env.ignore_fresh_unbacked_symbols(), torch.no_grad():
            results = dtypes(node.target(*args, **kwargs))  # type: ignore[operator]
    except Exception:  # noqa: BLE001 - the trace reports it
        return
    if outs != results:
        raise Refused(f"eager PyTorch may refuse results of {results} in {outs}")


def _example(node: torch.fx.Node) -> Any:
    return node.meta.get("example_value")


def _value(node: torch.fx.Node) -> Any:
    return node.meta.get("val")


def _check(operator: OpOverload, args: Any, kwargs: Any) -> None:
    named = {a.name: a.default_value for a in operator._schema.arguments}
    named |= dict(zip(named, args)) | kwargs
    if REFUSES[operator](named):
        raise Refused(f"eager PyTorch refuses this call of {operator}")
