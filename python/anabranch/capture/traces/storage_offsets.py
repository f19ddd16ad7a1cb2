"""Has a trace know where tensors begin in their memory, for views that operators write.

PyTorch's cache of fake tensors forgets it for a tensor that slices were written into.
Where PyTorch describes a view as a slice, it counts the place of the tensor twice. And
`fill_diagonal_` counts from the start of the memory, so a trace refuses it of a view."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import torch
import torch.fx
from torch._guards import detect_fake_mode
from torch._higher_order_ops.auto_functionalize import auto_functionalized_v2

from ... import purity
from ...describe.symbols import same

_FILLS_DIAGONAL = (
    "fill_diagonal_",
    torch.Tensor.fill_diagonal_,
    torch.ops.aten.fill_diagonal_,
    torch.ops.aten.fill_diagonal_.default,
)
# A tall matrix whose diagonal wraps around is taken in so many parts at most.
_MOST_PARTS = 16


@contextlib.contextmanager
def kept(module: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Iterator[None]:
    """Traces without the cache if an input that the graph may write begins after the
    start of its memory."""
    mode = detect_fake_mode(list(example_inputs))
    if mode is None or not mode.cache_enabled or not _may_lose(module, example_inputs):
        yield
        return
    mode.cache_enabled = False
    try:
        yield
    finally:
        mode.cache_enabled = True


def mend_slices(graph: torch.fx.Graph) -> None:
    """Has slices that operators write count from the first element of their tensor, as
    `aten.slice` does."""
    for node in graph.nodes:
        if node.target is not auto_functionalized_v2:
            continue
        bases: Any = node.kwargs["_all_bases"]
        mended = dict(node.kwargs)
        for name, dim in node.kwargs.items():
            if not name.endswith("_slice_dim"):
                continue
            prefix = name.removesuffix("_slice_dim")
            base = bases[node.kwargs[f"{prefix}_base_index"]].meta["val"]
            for end in (f"{prefix}_slice_start", f"{prefix}_slice_end"):
                mended[end] = _counted_once(mended[end], base, dim)
        node.kwargs = mended


def fill_diagonals_of_views(module: torch.fx.GraphModule) -> None:
    """Has Dynamo's graph fill diagonals through views of them, in the place of
    `fill_diagonal_`. A diagonal that wraps around very often stays."""
    for part in module.modules():
        if not isinstance(part, torch.fx.GraphModule):
            continue
        found = [
            node
            for node in part.graph.nodes
            if node.op in ("call_method", "call_function")
            and node.target in _FILLS_DIAGONAL
        ]
        mended = [_fill_by_views(part.graph, node) for node in found]
        if any(mended):
            part.recompile()


def _fill_by_views(graph: torch.fx.Graph, node: torch.fx.Node) -> bool:
    filled, value, wrap = _arguments(*node.args, **node.kwargs)
    example = filled.meta.get("example_value")
    if not isinstance(example, torch.Tensor):
        return False
    parts = _parts_of_diagonal(example, wrap)
    if parts is None:
        return False

    def call(method: str, *arguments: Any) -> torch.fx.Node:
        made = graph.call_method(method, arguments)
        made.meta = {**node.meta}
        made.meta.pop("example_value", None)
        return made

    with graph.inserting_before(node):
        for start, rows in parts:
            view = call("narrow", filled, 0, start, rows) if rows else filled
            for _ in range(example.dim() - 1):
                view = call("diagonal", view, 0, -1, 0)
            call("fill_", view, value)
    node.replace_all_uses_with(filled)
    graph.erase_node(node)
    return True


def _arguments(
    self: torch.fx.Node, fill_value: Any, wrap: bool = False
) -> tuple[torch.fx.Node, Any, bool]:
    return self, fill_value, wrap


def _parts_of_diagonal(
    tensor: torch.Tensor, wrap: bool
) -> list[tuple[int, int]] | None:
    """The rows that have the parts of a diagonal: begin and number, which is 0 for all
    rows. None where PyTorch refuses the shape, or where there are too many parts."""
    if tensor.dim() < 2:
        return None
    if tensor.dim() > 2:
        is_cube = all(same(tensor.shape[0], size) for size in tensor.shape)
        return [(0, 0)] if is_cube else None
    rows, columns = tensor.shape
    # PyTorch itself traces no diagonal that wraps around a matrix of symbolic sizes.
    if not wrap or rows <= columns + 1:
        return [(0, 0)]
    if not columns:
        return None
    starts = range(0, rows, columns + 1)
    # Where a row does not end at the next one, PyTorch wraps around in the memory.
    is_dense = same(columns * tensor.stride(1), tensor.stride(0))
    if not is_dense or len(starts) > _MOST_PARTS:
        return None
    return [(start, min(columns, rows - start)) for start in starts]


def _counted_once(place: Any, base: torch.Tensor, dim: Any) -> Any:
    numbers = (place, base.storage_offset(), base.stride(dim))
    if not all(isinstance(number, int) for number in numbers) or not base.stride(dim):
        return place
    return place - base.storage_offset() // base.stride(dim)


def _may_lose(module: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> bool:
    tensors = (*example_inputs, *module.parameters(), *module.buffers())
    return purity.may_write(module, example_inputs) and any(
        isinstance(tensor, torch.Tensor)
        and tensor.layout is torch.strided
        and not same(tensor.storage_offset(), 0)
        for tensor in tensors
    )
