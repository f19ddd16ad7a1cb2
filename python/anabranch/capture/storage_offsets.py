"""Has a trace know where tensors begin in their memory, for views that operators write.

PyTorch's cache of fake tensors forgets it for a tensor that slices were written into.
And where PyTorch describes a view as a slice, it counts the place of the tensor twice."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import torch
import torch.fx
from torch._guards import detect_fake_mode
from torch._higher_order_ops.auto_functionalize import auto_functionalized_v2

from .. import purity
from ..describe.symbols import same


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
