"""Decomposes the modified Bessel functions of the first kind into arithmetic, so that
they are computed in kernels, fused with what is around them.

Narrower floats are computed in float64 and rounded once."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import torch

from .formulas import in_float64, polynomial

aten = torch.ops.aten

# From here on the asymptotic series has the precision of float64: it ends at about
# exp(-2x).
LARGE = 20.0
# The function of a larger argument is infinite; that of half of it is not.
LARGEST = 1000.0


def decompositions() -> dict[Any, Callable[..., Any]]:
    zero, one = (functools.partial(_modified, order) for order in (0, 1))
    table = {
        aten.i0.default: zero,
        aten.special_modified_bessel_i0.default: zero,
        aten.special_i0e.default: functools.partial(_scaled, 0),
        aten.special_i1.default: one,
        aten.special_modified_bessel_i1.default: one,
        aten.special_i1e.default: functools.partial(_scaled, 1),
    }
    return {operator: in_float64(formula) for operator, formula in table.items()}


def _powers(order: int) -> list[float]:
    """The coefficients of powers of (x / 2)^2. None is negative, so that no digits
    cancel; the last one is below the precision at LARGE."""
    return [1 / (math.factorial(k) * math.factorial(k + order)) for k in range(38)]


def _inverse_powers(order: int) -> list[float]:
    """The coefficients of powers of 1 / x in Hankel's asymptotic series."""
    found = [1.0]
    for k in range(1, 25):
        found.append(found[-1] * ((2 * k - 1) ** 2 - 4 * order**2) / (8 * k))
    return found


def _near(order: int, x: torch.Tensor) -> torch.Tensor:
    """The power series; only below LARGE."""
    half = x / 2
    series = polynomial(half * half, _powers(order)[::-1])
    return half * series if order else series


def _far(order: int, x: torch.Tensor) -> torch.Tensor:
    """The asymptotic series without its factor of exp(x); only from LARGE on."""
    series = polynomial(1 / x, _inverse_powers(order)[::-1])
    # The product 2 pi x would be infinite before x is.
    return series / (math.sqrt(2 * math.pi) * torch.sqrt(x))


def _modified(order: int, x: torch.Tensor) -> torch.Tensor:
    """NaN at infinity, as PyTorch's operator, which multiplies infinity by zero there."""
    size = x.abs()
    # Neither half of the factor is infinite before the result is.
    half = torch.exp(size.clamp(LARGE, LARGEST) / 2)
    far = half * _far(order, size.clamp(LARGE, LARGEST)) * half
    result = _joined(order, x, _near(order, size.clamp(max=LARGE)), far)
    return torch.where(torch.isinf(x), math.nan, result)


def _scaled(order: int, x: torch.Tensor) -> torch.Tensor:
    """The function times exp(-|x|)."""
    size = x.abs()
    small = size.clamp(max=LARGE)
    near = torch.exp(-small) * _near(order, small)
    return _joined(order, x, near, _far(order, size.clamp(min=LARGE)))


def _joined(
    order: int, x: torch.Tensor, near: torch.Tensor, far: torch.Tensor
) -> torch.Tensor:
    result = torch.where(x.abs() < LARGE, near, far)
    # PyTorch's odd functions of -0.0 are 0.0.
    return torch.where(x < 0, -result, result) if order else result
