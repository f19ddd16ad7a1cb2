"""Checks shapes of arguments that PyTorch checks in eager mode and not in a trace.

In eager mode `x.index_put((i,), v)` refuses a `v` of a wrong shape. A trace takes any,
and a compiled program would access memory out of bounds. Where sizes are symbolic, the
check becomes a guard: sizes that are equal in the trace have to stay equal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.fx
from torch.fx.experimental.symbolic_shapes import (
    GuardOnDataDependentSymNode,
    free_unbacked_symbols,
    guard_or_false,
)

from ..errors import CompileError
from ..location import user_line
from .regions.run_slices import length
from .symbols import Unsupported, same

aten = torch.ops.aten

Shape = Sequence[Any]


def check(node: torch.fx.Node) -> None:
    """CompileError, with the user's line: eager PyTorch refuses the call. Unsupported:
    it depends on data whether PyTorch does."""
    rule = _RULES.get(node.target)
    if rule is None:
        return
    args, kwargs = torch.fx.node.map_arg(
        (node.args, node.kwargs), lambda argument: argument.meta.get("val")
    )
    try:
        problem = rule(*args, **kwargs)
    except GuardOnDataDependentSymNode:
        raise Unsupported(
            f"{node.target}: whether its shapes fit is up to the data"
        ) from None
    if problem:
        raise CompileError(f"{node.target}: {problem}\n  {user_line(node)}")


def _same(left: Shape, right: Shape) -> bool:
    return len(left) == len(right) and all(a == b for a, b in zip(left, right))


def _text(shape: Shape) -> str:
    return str([str(size) for size in shape]).replace("'", "")


def _index_put(
    self: torch.Tensor,
    indices: Sequence[torch.Tensor | None],
    values: torch.Tensor,
    accumulate: bool = False,
) -> str | None:
    dims = [None if index is None else _covered(index) for index in indices]
    if sum(1 if count is None else count for count in dims) > self.dim():
        return f"too many indices for a tensor of {self.dim()} dimensions"
    at, rest, places = 0, [], []
    for index, count in zip(indices, dims):
        if index is None:
            rest.append(self.shape[at])
        elif _is_mask(index):
            mask, covered = index.shape, self.shape[at : at + index.dim()]
            if not _same(mask, covered):
                return f"the mask of shape {_text(mask)} must be {_text(covered)}"
        places.append(at)
        at += 1 if count is None else count
    if any(index is not None and _is_mask(index) for index in indices):
        return None  # the number of selected places depends on data
    common = _broadcast([i.shape for i in indices if i is not None])
    if common is None:
        return "the indices can't be broadcast together"
    rest += self.shape[at:]
    indexed = [place for place, index in zip(places, indices) if index is not None]
    adjacent = bool(indexed) and indexed[-1] - indexed[0] + 1 == len(indexed)
    start = indexed[0] if adjacent else 0
    wanted = [*rest[:start], *common, *rest[start:]]
    found = values.shape
    fits = len(found) <= len(wanted) and all(
        _is_one(size) or size == place for size, place in zip(found[::-1], wanted[::-1])
    )
    if not fits:
        return f"values of shape {_text(found)} can't be broadcast to {_text(wanted)}"
    return None


def _is_one(size: Any) -> bool:
    """Whether a size is one. A size that depends on data counts as another one."""
    return guard_or_false(size == 1)


def _is_mask(index: torch.Tensor) -> bool:
    return index.dtype in (torch.bool, torch.uint8)


def _covered(index: torch.Tensor) -> int:
    return index.dim() if _is_mask(index) else 1


def _broadcast(shapes: Sequence[Shape]) -> list[Any] | None:
    common: list[Any] = [1] * max(map(len, shapes), default=0)
    for shape in shapes:
        for place in range(1, len(shape) + 1):
            size = shape[-place]
            if _is_one(common[-place]):
                common[-place] = size
            elif not (_is_one(size) or size == common[-place]):
                return None
    return common


def _index_add(
    self: torch.Tensor,
    dim: int,
    index: torch.Tensor,
    source: torch.Tensor,
    *,
    alpha: Any = 1,
) -> str | None:
    wanted = list(self.shape)
    if wanted:
        wanted[dim] = index.numel()
    if source.dim() == 0 or _same(source.shape, wanted):
        return None
    return f"source of shape {_text(source.shape)} must be {_text(wanted)}"


def _index_copy(
    self: torch.Tensor, dim: int, index: torch.Tensor, source: torch.Tensor
) -> str | None:
    if self.dim() == 0:
        return None  # PyTorch runs the operator, and checks it
    return _index_add(self, dim, index, source)


def _index_select(self: torch.Tensor, dim: int, index: torch.Tensor) -> str | None:
    return None if index.dim() <= 1 else "the index must be a vector"


def _slice_scatter(
    self: torch.Tensor,
    src: torch.Tensor,
    dim: int = 0,
    start: Any = None,
    end: Any = None,
    step: Any = 1,
) -> str | None:
    if not any(free_unbacked_symbols(n) for n in (start, end) if n is not None):
        return _as_part(src, aten.slice.Tensor(self, dim, start, end, step))
    wanted = list(self.shape)
    # The bounds are places (`regions/run_slices.py`).
    wanted[dim] = length(start, end, step)
    if not all(map(same, src.shape, wanted)):
        raise Unsupported(
            "aten.slice_scatter.default: whether its shapes fit is up to the data"
        )
    return None


def _select_scatter(
    self: torch.Tensor, src: torch.Tensor, dim: int, index: Any
) -> str | None:
    return _as_part(src, aten.select.int(self, dim, index))


def _as_part(src: torch.Tensor, part: torch.Tensor) -> str | None:
    if _same(src.shape, part.shape):
        return None
    return f"src of shape {_text(src.shape)} must be {_text(part.shape)}"


_RULES: dict[Any, Callable[..., str | None]] = {
    aten.index_put.default: _index_put,
    aten._unsafe_index_put.default: _index_put,
    aten.index_add.default: _index_add,
    aten.index_copy.default: _index_copy,
    aten.index_select.default: _index_select,
    aten.slice_scatter.default: _slice_scatter,
    aten.select_scatter.default: _select_scatter,
}
