"""Finds writes of a Dynamo graph that eager PyTorch refuses, and a trace takes: into memory
that the written tensor shares in part with an operand, and into an `out` of another dtype
than the result."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
import torch.fx
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols
from torch.utils._pytree import tree_leaves

from ...describe.symbols import hint
from ...describe.views import overlaps
from ...describe.written import is_dense, storage
from .refusals import Refused
from .refused_calls import dtypes

aten = torch.ops.aten

_IN_PLACE = {
    operator.iadd,
    operator.isub,
    operator.imul,
    operator.itruediv,
    operator.ifloordiv,
    operator.imod,
    operator.ipow,
    operator.iand,
    operator.ior,
    operator.ixor,
    operator.ilshift,
    operator.irshift,
}


def check_writes(module: torch.fx.GraphModule) -> None:
    """Refused: eager PyTorch refuses a write of this graph, or may."""
    for part in module.modules():
        if isinstance(part, torch.fx.GraphModule):
            for node in part.graph.nodes:
                _check(node)


def _check(node: torch.fx.Node) -> None:
    if node.op == "call_function" and node.kwargs.get("out") is not None:
        _check_out(node)
    elif node.target is operator.setitem:
        _check_item(node)
    elif _writes(node):
        written, *operands = _tensors(_examples(node)) or [None]
        if written is not None:
            _check_memory(written, operands)


def _check_memory(written: Tensor, operands: Sequence[Tensor]) -> None:
    if _repeats(written):
        raise Refused("it writes several elements to one place")
    if any(_overlap_in_part(written, operand) for operand in operands):
        raise Refused("it writes memory that it reads at other places")


def _writes(node: torch.fx.Node) -> bool:
    """Whether the node writes its first argument: `x.add_(y)`, `x += y`."""
    if node.op == "call_method":
        name = str(node.target)
        return name.endswith("_") and not name.endswith("__")
    return node.op == "call_function" and node.target in _IN_PLACE


def _check_out(node: torch.fx.Node) -> None:
    args, given = _examples(node)
    kwargs = dict(given)
    outs = _tensors(kwargs.pop("out"))
    operands = _tensors((args, kwargs))
    shared = any(_shares(out, operand) for out in outs for operand in operands)
    if shared and not _is_pointwise(node.target):
        raise Refused("an `out` shares memory with an operand")
    for out in outs:
        _check_memory(out, operands)
    results = _computed(lambda: node.target(*args, **kwargs), (args, given))  # type: ignore[operator]
    if results is not None and dtypes(outs) != dtypes(results):
        raise Refused("an `out` has another dtype than the result")


def _check_item(node: torch.fx.Node) -> None:
    (target, index, value), _ = _examples(node)
    if not isinstance(target, Tensor) or not isinstance(value, Tensor):
        return
    if _shares(target, value):
        written = _computed(lambda: target[index], (target, index))
        if isinstance(written, Tensor):
            _check_memory(written, [value])


def _computed(compute: Any, values: Any) -> Any:
    """The result on fake tensors. None where it cannot be computed: the trace says why."""
    fakes = [t for t in tree_leaves(values) if isinstance(t, FakeTensor)]
    if not fakes or fakes[0].fake_mode.shape_env is None:
        return None
    mode = fakes[0].fake_mode
    try:
        with mode, mode.shape_env.ignore_fresh_unbacked_symbols(), torch.no_grad():
            return compute()
    except Exception:  # noqa: BLE001 - the trace reports it
        return None


def _examples(node: torch.fx.Node) -> Any:
    return torch.fx.map_arg(
        (node.args, node.kwargs), lambda other: other.meta.get("example_value")
    )


def _tensors(values: Any) -> list[Tensor]:
    return [value for value in tree_leaves(values) if isinstance(value, Tensor)]


def _is_pointwise(target: Any) -> bool:
    packet = getattr(aten, getattr(target, "__name__", ""), None)
    overloads = packet.overloads() if packet is not None else []
    return any(torch.Tag.pointwise in getattr(packet, o).tags for o in overloads)


def _shares(left: Tensor, right: Tensor) -> bool:
    return _is_plain(left) and _is_plain(right) and storage(left) == storage(right)


def _is_plain(tensor: Tensor) -> bool:
    """Whether it has memory, and places in it that no data decide."""
    if type(tensor) is not FakeTensor or not is_dense(tensor):
        return False
    numbers = (*tensor.shape, *tensor.stride(), tensor.storage_offset())
    return not any(map(free_unbacked_symbols, numbers))


def _overlap_in_part(left: Tensor, right: Tensor) -> bool:
    """Whether eager PyTorch finds, at the sizes of the trace, that two tensors share a
    part of their memory: of those with gaps it does not know."""
    if left is right or not _shares(left, right):
        return False
    lies, other = _lie(left), _lie(right)
    if not (lies.is_whole and other.is_whole):
        return False
    if lies.end <= other.begin or other.end <= lies.begin:
        return False
    return lies != other


def _repeats(tensor: Tensor) -> bool:
    if not _is_plain(tensor):
        return False
    lies = _lie(tensor)
    return any(size > 1 and not step for size, step in zip(lies.sizes, lies.strides))


class _Lie(NamedTuple):
    """Where the elements of a tensor lie in its storage, in bytes."""

    sizes: list[int]
    strides: list[int]
    begin: int
    end: int

    @property
    def is_whole(self) -> bool:
        """Whether the elements have no gaps, and each has a place of its own."""
        steps = sum((n - 1) * s for n, s in zip(self.sizes, self.strides))
        is_filled = 1 + steps == math.prod(self.sizes)
        return is_filled and not overlaps(self.sizes, self.strides)


def _lie(tensor: Tensor) -> _Lie:
    sizes, strides = list(map(hint, tensor.shape)), list(map(hint, tensor.stride()))
    begin = hint(tensor.storage_offset()) * tensor.itemsize
    return _Lie(sizes, strides, begin, begin + math.prod(sizes) * tensor.itemsize)
