"""Names the calls that the runtime runs itself: those that select by a mask, repeat,
count, sort, find what differs, and solve triangular systems.

The runtime has these operators in `src/runtime/operators`, so a package needs no PyTorch
for them. A call that a kernel can compute becomes one all the same; a call that differs
from what they take stays PyTorch's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.fx
from torch import Tensor
from torch._ops import OpOverload

aten = torch.ops.aten

# Dtypes that the runtime puts in order, and those that it takes for a count.
_COUNTS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
_FLOATS = (torch.float64, torch.float32, torch.float16, torch.bfloat16)
_REPEATS = (torch.int64, torch.int32)
_WEIGHTS = (torch.float64, torch.float32)
MASKS = (torch.bool, torch.uint8)


def own_name(node: torch.fx.Node, target: OpOverload) -> str | None:
    """The runtime's operator that runs the call; None if it has none."""
    takes = _TAKES.get(target)
    if takes is None:
        return None
    values = _values(node.args)
    named = {a.name: value for a, value in zip(target._schema.arguments, values)}
    named |= {name: _values(value) for name, value in node.kwargs.items()}
    if not takes(named):
        return None
    return f"runtime.{target._schema.name.partition('::')[2]}.default"


def _values(argument: Any) -> Any:
    """The tensors of the call, with their types."""
    return torch.fx.map_arg(argument, lambda node: node.meta.get("val"))


def _is_dense(value: Any) -> bool:
    return isinstance(value, Tensor) and value.layout is torch.strided


def single_mask(indices: Any) -> Tensor | None:
    """The mask, if it is the only index."""
    given = [index for index in indices if index is not None]
    if len(given) == 1 and given[0].dtype in MASKS and given[0].dim():
        return given[0]
    return None


def _selects(named: dict[str, Any]) -> bool:
    return _is_dense(named["self"]) and single_mask(named["indices"]) is not None


def _assigns(named: dict[str, Any]) -> bool:
    return (
        _selects(named)
        and not named.get("accumulate", False)
        and named["values"].dtype == named["self"].dtype
    )


def _repeats(named: dict[str, Any]) -> bool:
    return named["repeats"].dtype in _REPEATS and named["repeats"].dim() == 1


def _have_order(named: dict[str, Any]) -> bool:
    return named["self"].dtype in (*_COUNTS, *_FLOATS, torch.bool)


def _counts(named: dict[str, Any]) -> bool:
    weights = named.get("weights")
    if weights is not None and weights.dtype not in _WEIGHTS:
        return False
    return named["self"].dtype in _COUNTS and named["self"].dim() == 1


def _scatters(named: dict[str, Any]) -> bool:
    return _is_dense(named["self"]) and named["mask"].dtype in MASKS


def _has_bins(named: dict[str, Any]) -> bool:
    return named["self"].dtype in _WEIGHTS


def _solves(named: dict[str, Any]) -> bool:
    return named["self"].dtype in _WEIGHTS


_TAKES: dict[OpOverload, Callable[[dict[str, Any]], bool]] = {
    aten.nonzero.default: lambda named: _is_dense(named["self"]),
    aten.nonzero_static.default: lambda named: _is_dense(named["self"]),
    aten.index.Tensor: _selects,
    aten.index_put.default: _assigns,
    aten.masked_select.default: lambda named: _is_dense(named["self"]),
    aten.masked_scatter.default: _scatters,
    aten.repeat_interleave.Tensor: _repeats,
    aten._unique2.default: _have_order,
    aten.unique_dim.default: _have_order,
    aten.unique_consecutive.default: _have_order,
    aten.bincount.default: _counts,
    aten.histc.default: _has_bins,
    aten.histogram.bin_ct: _has_bins,
    aten.histogram.bins_tensor: _has_bins,
    aten.linalg_solve_triangular.default: _solves,
    aten.sort.default: _have_order,
    aten.sort.stable: _have_order,
    aten.topk.default: _have_order,
}
