"""Tells AOTAutograd what the results of a graph are.

AOTAutograd runs a graph over fake tensors before it traces it. The run shows which
arguments the graph writes, which results are views, and what the results look like. For
a graph that writes nothing Dynamo's own fake tensors say the same. The run takes as long
as the trace; with symbolic sizes it takes twice as long."""

from __future__ import annotations

import contextlib
import operator
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from unittest import mock

import torch
import torch.fx
from torch._functorch import aot_autograd
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

# The function of AOTAutograd that runs the graph.
_RUNS = "run_functionalized_fw_and_collect_metadata"


@contextlib.contextmanager
def told(module: torch.fx.GraphModule) -> Iterator[None]:
    """A trace of `module`, which writes no memory of its arguments and computes no
    gradients, learns its results from Dynamo's notes. Where these leave something open,
    such as a result that is a view of an argument, AOTAutograd runs the graph."""
    results = fresh_results(module)
    run = getattr(aot_autograd, _RUNS, None)
    if results is None or run is None:
        yield
        return

    trace, waiting = threading.get_ident(), [results]

    # Traces in other threads and traces within this one are of other graphs.
    def look(function: Callable[..., Any], **how: Any) -> Any:
        if threading.get_ident() != trace or not waiting:
            return run(function, **how)
        known = waiting.pop()
        return run(lambda *_: _like(known), **how)

    with mock.patch.object(aot_autograd, _RUNS, look):
        yield


def fresh_results(module: torch.fx.GraphModule) -> list[Any] | None:
    """What Dynamo noted of each result: a fake tensor, a symbolic number or None. None
    unless each tensor among them has memory that neither an argument nor another result
    has, and for a graph that sets the mode of gradients."""
    if module.graph.find_nodes(op="call_function", target=torch._C._set_grad_enabled):
        return None
    given = [
        node for node in module.graph.nodes if node.op in ("placeholder", "get_attr")
    ]
    held = {memory for node in given for memory in _memory_of(module, node)}
    results = []
    for result in module.graph.output_node().args[0]:
        noted = _noted(result)
        if isinstance(noted, torch.Tensor):
            if not _is_fresh(noted) or held & {_UNKNOWN, _memory(noted)}:
                return None
            held.add(_memory(noted))
        elif noted is not None and not _is_size(noted):
            return None
        results.append(noted)
    return results


# The memory of an argument that Dynamo does not describe, and the note of a result that
# has none.
_UNKNOWN = -1
_NO_NOTE = object()


def _noted(result: object) -> Any:
    if isinstance(result, torch.fx.Node):
        return result.meta.get("example_value", _NO_NOTE)
    return result


def _memory_of(module: torch.fx.GraphModule, node: torch.fx.Node) -> Iterator[int]:
    noted = _noted(node)
    if isinstance(noted, torch.Tensor):
        yield _memory(noted) if _is_plain(noted) else _UNKNOWN
    elif node.op == "placeholder":
        if noted is _NO_NOTE:
            yield _UNKNOWN
    elif not isinstance(operator.attrgetter(node.target)(module), torch.nn.Module):
        yield _UNKNOWN


def _is_plain(noted: torch.Tensor) -> bool:
    """Whether it is a fake tensor that has memory. Quantised tensors and those of other
    layouts have none that views could share."""
    return (
        isinstance(noted, FakeTensor)
        and noted.layout is torch.strided
        and not noted.is_nested
        and not noted.is_quantized
    )


def _is_fresh(noted: torch.Tensor) -> bool:
    return (
        type(noted) is FakeTensor
        and _is_plain(noted)
        and not noted.requires_grad
        and not noted.is_conj()
        and not noted.is_neg()
        and not any(map(free_unbacked_symbols, (*noted.shape, *noted.stride())))
    )


def _is_size(noted: object) -> bool:
    return isinstance(noted, torch.SymInt) and not free_unbacked_symbols(noted)


def _memory(noted: torch.Tensor) -> int:
    return noted.untyped_storage()._cdata


def _like(results: Sequence[Any]) -> list[Any]:
    """Made within AOTAutograd's modes, as the results of the graph would be."""
    return [
        torch.empty_strided(
            noted.shape, noted.stride(), dtype=noted.dtype, device=noted.device
        )
        if isinstance(noted, torch.Tensor)
        else noted
        for noted in results
    ]
