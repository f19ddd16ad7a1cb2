"""Decomposes what PyTorch takes for the inverse of Tensor.unfold.

`istft` calls this operator to sum its frames. Where a graph updates windows of a tensor,
functionalization also makes the tensor's new value by it, which is wrong: it is zero
between windows that leave gaps, and a sum where windows share elements."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any

import torch
from torch import Tensor
from torch._decomp import decompositions as parts
from torch._ops import OpOverload, OpOverloadPacket

from ...describe.written import Misplaced

aten = torch.ops.aten


def decompositions() -> dict[Any, Callable[..., Any]]:
    return {aten.unfold_backward.default: _unfold_backward}


def _unfold_backward(
    grad: Tensor, sizes: Sequence[int], dim: int, size: int, step: int
) -> Tensor:
    """Misplaced: neither the program nor a gradient asks for the sums of windows."""
    if torch._C._current_autograd_node() is None and not _is_called():
        raise Misplaced("it updates windows of a tensor")
    made: Tensor = parts.unfold_backward(grad, sizes, dim, size, step)
    return made


def _is_called() -> bool:
    """Whether Python calls this operator. Functionalization calls it from C++, inside of
    another operator's call or of none."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        called = frame.f_locals.get("self")
        if isinstance(called, OpOverload | OpOverloadPacket):
            return called in (aten.unfold_backward, aten.unfold_backward.default)
        frame = frame.f_back
    return False
