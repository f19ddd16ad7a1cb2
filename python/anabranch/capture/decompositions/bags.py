"""Decomposes sums, means and maxima of bags of rows of a table, which models of
recommendations look up.

    bag    of each index, counted from the starts of bags that lie at or before it
    rows   of the table, times their weights, in f32 if they are narrower
    result rows that are added to the row of their bag, or compared with it

Indices of padding go to a bag behind the last, which is dropped. The results that only
gradients read have the forms that PyTorch's backward functions read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ...describe.symbols import has_hint, hint

aten = torch.ops.aten

_SUM, _MEAN, _MAX = range(3)
_NARROW = (torch.float16, torch.bfloat16)
# Elements of rows from which on a program calls PyTorch's kernel. On a Zen 5 eager PyTorch
# takes half the time of a compiled call of kernels for 160,000 elements, and two thirds for
# 8,000, where the call itself is most. The number between them is an estimate.
_LARGE = 1 << 16

_OPERATORS = (aten._embedding_bag.default, aten._embedding_bag_forward_only.default)


def decompositions() -> dict[Any, Callable[..., Any]]:
    return dict.fromkeys(_OPERATORS, _unless_large)


def of_exports() -> dict[Any, Callable[..., Any]]:
    """Packages have no PyTorch."""
    return dict.fromkeys(_OPERATORS, _embedding_bag)


def _unless_large(weight: Tensor, indices: Tensor, *rest: Any, **named: Any) -> Any:
    mode = rest[2] if len(rest) > 2 else named.get("mode", _SUM)
    if mode != _MAX and _elements(indices, weight) > _LARGE:
        return NotImplemented
    return _embedding_bag(weight, indices, *rest, **named)


def _elements(indices: Tensor, weight: Tensor) -> int:
    """Those of the rows of all bags in the call that was traced; none if data decide how
    many rows there are."""
    rows = indices.shape[0]
    return hint(rows) * hint(weight.shape[-1]) if has_hint(rows) else 0


def _embedding_bag(
    weight: Tensor,
    indices: Tensor,
    offsets: Tensor,
    scale_grad_by_freq: bool = False,
    mode: int = _SUM,
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int = -1,
) -> Any:
    if weight.dim() != 2 or indices.dim() != 1 or offsets.dim() != 1:
        return NotImplemented  # PyTorch says what is wrong
    starts = offsets[:-1] if include_last_offset else offsets
    count = starts.shape[0]
    bags = _bags(starts, indices.shape[0])
    kept = bags if padding_idx < 0 else bags.where(indices != padding_idx, count)
    sizes = aten.index_add(bags.new_zeros(count + 1), 0, kept, torch.ones_like(bags))
    sizes = sizes[:count]
    rows = aten.index_select(weight, 0, indices)
    if rows.dtype in _NARROW:
        rows = rows.to(torch.float32)
    if per_sample_weights is not None:
        rows = rows * per_sample_weights[:, None]
    empty = rows.new_zeros(count + 1, weight.shape[1])
    if mode == _MAX:
        found, best = _largest(empty, kept, rows, indices)
    else:
        found, best = aten.index_add(empty, 0, kept, rows)[:count], sizes
    if mode == _MEAN:
        found = found / sizes.clamp(min=1)[:, None]
    like = indices.dtype
    return found.to(weight.dtype), bags.to(like), sizes.to(like), best.to(like)


def _bags(starts: Tensor, count: int) -> Tensor:
    """The bag of each of the `count` indices. Bags without an index start where the next
    one does."""
    marks = torch.zeros(count + 1, dtype=torch.int64)
    ones = torch.ones_like(starts, dtype=torch.int64)
    return aten.index_add(marks, 0, starts, ones).cumsum(0)[:count] - 1


def _largest(
    empty: Tensor, bags: Tensor, rows: Tensor, indices: Tensor
) -> tuple[Tensor, Tensor]:
    """The largest element of each column of a bag, and the index of its row: the first of
    equal ones."""
    place = bags[:, None].expand_as(rows)
    found = aten.scatter_reduce(empty, 0, place, rows, "amax", include_self=False)
    order = torch.arange(rows.shape[0])[:, None].expand_as(rows)
    behind = torch.full_like(empty, rows.shape[0], dtype=torch.int64)
    equal = order.where(rows == found.gather(0, place), rows.shape[0])
    first = aten.scatter_reduce(behind, 0, place, equal, "amin")
    names = torch.cat([indices, indices.new_zeros(1)])
    return found[:-1], names[first[:-1]]
