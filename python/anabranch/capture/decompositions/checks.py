"""Decomposes operators whose kernels in PyTorch check values, and whose decompositions in
PyTorch do not: losses of probabilities, and the positions that pooling has found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch._decomp import decompositions as parts

aten = torch.ops.aten


def decompositions() -> dict[Any, Callable[..., Any]]:
    return {
        aten.binary_cross_entropy.default: _binary_cross_entropy,
        aten.max_unpool2d.default: _unpool(parts.max_unpool2d),
        aten.max_unpool3d.default: _unpool(parts.max_unpool3d),
    }


def _binary_cross_entropy(
    self: Tensor, target: Tensor, weight: Tensor | None = None, reduction: int = 1
) -> Tensor:
    for name, value in (("input", self), ("target", target)):
        inside = ((value >= 0) & (value <= 1)).all()
        words = f"all elements of {name} should be between 0 and 1"
        aten._assert_async.msg(inside, words)
    return parts.binary_cross_entropy(self, target, weight, reduction)


def _unpool(unpool: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """PyTorch's decomposition adds the place of a channel to positions, so that a negative
    one falls into another channel. Far beyond the result it stays an error."""

    def checked(self: Tensor, indices: Tensor, *sizes: Any) -> Tensor:
        beyond = torch.where(indices < 0, 1 << 40, indices)
        return unpool(self, beyond, *sizes)

    return checked
