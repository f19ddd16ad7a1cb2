"""Decomposes what PyTorch takes for the inverse of Tensor.unfold.

Where a graph updates windows of a tensor, functionalization makes the tensor's new value by
the operator that computes gradients of windows. It is zero between windows that leave
gaps, and a sum where windows share elements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._decomp import decompositions as parts

from ...describe.written import Misplaced

aten = torch.ops.aten


def decompositions() -> dict[Any, Callable[..., Any]]:
    return {aten.unfold_backward.default: _unfold_backward}


def _unfold_backward(
    grad: Tensor, sizes: Sequence[int], dim: int, size: int, step: int
) -> Tensor:
    """Misplaced: no gradient is computed."""
    if torch._C._current_autograd_node() is None:
        raise Misplaced("it updates windows of a tensor")
    made: Tensor = parts.unfold_backward(grad, sizes, dim, size, step)
    return made
