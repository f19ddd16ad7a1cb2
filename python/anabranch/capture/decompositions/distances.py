"""Decomposes the distances between the rows of two matrices.

Eager PyTorch multiplies the matrices for Euclidean distances of more than 25 rows, which
is less exact and faster. So does the decomposition, by the sizes of the traced call."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ...describe.symbols import has_hint, hint

aten = torch.ops.aten

_FEW_ROWS = 25
_BY_SIZE, _BY_PRODUCTS = 0, 1


def decompositions() -> dict[Any, Callable[..., Any]]:
    return {aten._cdist_forward.default: _cdist}


def _cdist(x1: Tensor, x2: Tensor, p: float, compute_mode: int | None) -> Any:
    if x1.dtype != x2.dtype or x1.dtype not in (torch.float32, torch.float64):
        return NotImplemented  # PyTorch says what is wrong
    if not isinstance(p, float) or not 0 <= p:
        return NotImplemented
    if not all(map(has_hint, (*x1.shape, *x2.shape))):
        return NotImplemented
    if p == 2 and _multiplies(x1, x2, compute_mode or _BY_SIZE):
        return _by_products(x1, x2)
    apart = (x1.unsqueeze(-2) - x2.unsqueeze(-3)).abs()
    if p == 0:
        return (apart != 0).sum(-1).to(x1.dtype)
    if p == 1:
        return apart.sum(-1)
    if p == 2:
        return apart.square().sum(-1).sqrt()
    if p == math.inf:
        return apart.amax(-1) if x1.shape[-1] else apart.sum(-1)
    return apart.pow(p).sum(-1).pow(1 / p)


def _multiplies(x1: Tensor, x2: Tensor, mode: int) -> bool:
    many = max(hint(x1.shape[-2]), hint(x2.shape[-2])) > _FEW_ROWS
    return mode == _BY_PRODUCTS or (mode == _BY_SIZE and many)


def _by_products(x1: Tensor, x2: Tensor) -> Tensor:
    lengths = x1.square().sum(-1, keepdim=True)
    others = x2.square().sum(-1).unsqueeze(-2)
    squares = lengths + others - 2 * torch.matmul(x1, x2.mT)
    return squares.clamp(min=0).sqrt()
