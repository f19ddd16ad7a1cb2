"""Decomposes erfinv and the functions of the gamma function into arithmetic, so that
they are computed in kernels, fused with what is around them.

Narrower floats are computed in float64 and rounded once."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from .formulas import in_float64, polynomial

aten = torch.ops.aten

# Beyond this argument the asymptotic series below have the precision of float64.
LARGE = 10
# B(2k) / (2k (2k - 1)) of Stirling's series, B(2k) / 2k of its derivative, and B(2k) of
# the second one, for k from 1 on, with Bernoulli's numbers B.
BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6)
STIRLING = [b / (2 * k * (2 * k - 1)) for k, b in enumerate(BERNOULLI, 1)]
DERIVATIVE = [b / (2 * k) for k, b in enumerate(BERNOULLI, 1)]
# M. Giles, "Approximating the erfinv function": polynomials of w - 2.5, and of
# sqrt(w) - 3 from w = 5 on, the highest power first; w is -log(1 - x * x).
CENTRE = (
    *(2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06),
    *(0.00021858087, -0.00125372503, -0.00417768164, 0.246640727, 1.50140941),
)
TAIL = (
    *(-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844),
    *(0.00573950773, -0.0076224613, 0.00943887047, 1.00167406, 2.83297682),
)


def decompositions() -> dict[Any, Callable[..., Any]]:
    return {
        aten.lgamma.default: in_float64(_lgamma),
        aten.digamma.default: in_float64(_digamma),
        aten.polygamma.default: _polygamma,
        aten.erfinv.default: _narrow_erfinv,
    }


def _from_integer(x: torch.Tensor) -> torch.Tensor:
    """The distance from the nearest integer, which is exact: the sine of pi times it has
    the precision that the sine of pi times x lacks."""
    return x - torch.round(x)


class _Moved(NamedTuple):
    """An argument, moved to where the series below converge.

    reflects  below 1/2, where the reflection formula takes 1 - x in the place of x
    moves     below LARGE, where the argument is LARGE more
    steps     where it moves, the first of LARGE arguments in steps of one; else one
    large     the moved argument"""

    reflects: torch.Tensor
    moves: torch.Tensor
    steps: torch.Tensor
    large: torch.Tensor


def _moved(x: torch.Tensor) -> _Moved:
    reflects = x < 0.5
    positive = torch.where(reflects, 1 - x, x)
    moves = positive < LARGE
    steps = torch.where(moves, positive, 1.0)
    large = torch.where(moves, positive + LARGE, positive)
    return _Moved(reflects, moves, steps, large)


def _lgamma(x: torch.Tensor) -> torch.Tensor:
    """Stirling's series."""
    reflects, moves, steps, large = _moved(x)
    product = steps
    for step in range(1, LARGE):
        product = product * (steps + step)
    inverse = 1 / large
    # This form is infinite, and no NaN, where x is.
    series = (large - 0.5) * (torch.log(large) - 1) + 0.5 * (math.log(2 * math.pi) - 1)
    series = series + inverse * polynomial(inverse * inverse, STIRLING[::-1])
    result = series - torch.where(moves, torch.log(product), 0.0)
    part = _from_integer(x)
    sine = torch.sin(math.pi * part).abs()
    mirrored = math.log(math.pi) - torch.log(sine) - result
    # All integers are poles; at the largest ones `result` is infinite, too.
    mirrored = torch.where((part == 0) | torch.isinf(x), math.inf, mirrored)
    result = torch.where((x == 1) | (x == 2), 0.0, result)
    return torch.where(reflects, mirrored, result)


def _digamma(x: torch.Tensor) -> torch.Tensor:
    """The derivative of `_lgamma`, by the same series and formula."""
    reflects, moves, steps, large = _moved(x)
    moved = 1 / steps
    for step in range(1, LARGE):
        moved = moved + 1 / (steps + step)
    square = 1 / (large * large)
    series = torch.log(large) - 0.5 / large
    series = series - square * polynomial(square, DERIVATIVE[::-1])
    result = series - torch.where(moves, moved, 0.0)
    part = _from_integer(x)
    mirrored = result - math.pi / torch.tan(math.pi * part)
    # The sign of infinity at zero is the opposite of the zero's; NaN at other poles.
    pole = torch.where(x == 0, -1 / x, math.nan)
    mirrored = torch.where((part == 0) | torch.isinf(x), pole, mirrored)
    return torch.where(reflects, mirrored, result)


def _polygamma(n: int, x: torch.Tensor) -> Any:
    """PyTorch computes derivatives after the first one of digamma. It also computes that
    one of narrow floats and integers, many of which are poles: its results there are
    large numbers."""
    if n > 1 or (n == 1 and x.dtype not in (torch.float32, torch.float64)):
        return NotImplemented
    return in_float64(_trigamma if n else _digamma)(x)


def _trigamma(x: torch.Tensor) -> torch.Tensor:
    """The derivative of `_digamma`, by the same series and formula."""
    reflects, moves, steps, large = _moved(x)
    moved = 1 / (steps * steps)
    for step in range(1, LARGE):
        moved = moved + 1 / ((steps + step) * (steps + step))
    inverse = 1 / large
    square = inverse * inverse
    series = inverse + square * (0.5 + inverse * polynomial(square, BERNOULLI[::-1]))
    result = series + torch.where(moves, moved, 0.0)
    sine = torch.sin(math.pi * _from_integer(x)) / math.pi
    return torch.where(reflects, 1 / (sine * sine) - result, result)


def _narrow_erfinv(x: torch.Tensor) -> Any:
    """In float64, PyTorch's operator is closer to one than the approximation goes."""
    return NotImplemented if x.dtype == torch.float64 else in_float64(_erfinv)(x)


def _erfinv(x: torch.Tensor) -> torch.Tensor:
    """An approximation in the precision of float32, and two steps of Newton's method."""
    w = -torch.log1p(-x * x)
    centre = polynomial(w - 2.5, CENTRE)
    tail = polynomial(torch.sqrt(w) - 3, TAIL)
    result = torch.where(w < 5, centre, tail) * x
    for _ in range(2):
        slope = 2 / math.sqrt(math.pi) * torch.exp(-result * result)
        result = result - (torch.erf(result) - x) / slope
    return torch.where(x.abs() == 1, x * math.inf, result)
