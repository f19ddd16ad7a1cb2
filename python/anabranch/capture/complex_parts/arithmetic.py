"""Rules of operators that compute complex numbers element by element."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .values import Complex, parts, rule, widened

aten = torch.ops.aten


@rule(aten.add.Tensor, aten.add.Scalar)
def add(left: Any, right: Any, alpha: Any = 1) -> Any:
    if isinstance(alpha, complex):
        return NotImplemented
    (a, b), (c, d) = parts(left), parts(right)
    if d is None:
        return widened(torch.add(a, c, alpha=alpha), b)
    im = d * alpha if b is None else torch.add(b, d, alpha=alpha)
    return widened(torch.add(a, c, alpha=alpha), im)


@rule(aten.sub.Tensor, aten.sub.Scalar)
def _sub(left: Any, right: Any, alpha: Any = 1) -> Any:
    return NotImplemented if isinstance(alpha, complex) else add(left, right, -alpha)


@rule(aten.rsub.Scalar, aten.rsub.Tensor)
def _rsub(left: Any, right: Any, alpha: Any = 1) -> Any:
    if isinstance(alpha, complex) or not isinstance(left, Complex):
        return NotImplemented
    return add(Complex(-left.re * alpha, -left.im * alpha), right)


@rule(aten.mul.Tensor, aten.mul.Scalar)
def multiply(left: Any, right: Any) -> Complex:
    (a, b), (c, d) = parts(left), parts(right)
    if d is None:
        return widened(a * c, b * c)
    if b is None:
        return widened(a * c, a * d)
    return Complex(a * c - b * d, a * d + b * c)


@rule(aten.div.Tensor, aten.div.Scalar)
def _div(left: Any, right: Any) -> Complex:
    """Divides both by the larger part of the divisor first, as PyTorch does: the squares
    of its parts may overflow."""
    (a, b), (c, d) = parts(left), parts(right)
    if d is None:
        return widened(a / c, b / c)
    if not isinstance(d, Tensor):
        inverse = 1 / complex(c, d)
        return multiply(left, inverse)
    scale = torch.maximum(c.abs(), d.abs())
    c, d = c / scale, d / scale
    below = c * c + d * d
    a = a / scale
    if b is None:
        return Complex(a * c / below, -(a * d) / below)
    b = b / scale
    return Complex((a * c + b * d) / below, (b * c - a * d) / below)


@rule(aten.reciprocal.default)
def reciprocal(value: Complex) -> Complex:
    return _div(1.0, value)


@rule(aten.pow.Tensor_Scalar)
def _pow(value: Any, exponent: Any) -> Any:
    if not isinstance(value, Complex) or exponent not in (1, 2, 3, -1):
        return NotImplemented
    if exponent == -1:
        return reciprocal(value)
    result = value
    for _ in range(int(exponent) - 1):
        result = multiply(result, value)
    return result


@rule(aten.neg.default)
def _neg(value: Complex) -> Complex:
    return Complex(-value.re, -value.im)


@rule(
    aten._conj.default,
    aten.conj.default,
    aten.conj_physical.default,
    aten._conj_physical.default,
)
def _conj(value: Any) -> Complex:
    if isinstance(value, complex):  # a gradient of a product with a number
        return Complex(torch.full((), value.real), torch.full((), -value.imag))
    return Complex(value.re, -value.im)


@rule(aten._neg_view.default)
def _neg_view(value: Any) -> Any:
    return _neg(value) if isinstance(value, Complex) else -value


@rule(aten.abs.default)
def size_of(value: Complex) -> Tensor:
    return torch.hypot(value.re, value.im)


@rule(aten.angle.default)
def angle_of(value: Complex) -> Tensor:
    return torch.atan2(value.im, value.re)


@rule(aten.sgn.default)
def _sgn(value: Complex) -> Complex:
    size = torch.hypot(value.re, value.im)
    zero = size == 0
    return Complex(
        torch.where(zero, 0.0, value.re / size), torch.where(zero, 0.0, value.im / size)
    )


@rule(aten.complex.default)
def _complex(re: Tensor, im: Tensor) -> Complex:
    return widened(re, im)


@rule(aten.real.default)
def _real(value: Complex) -> Tensor:
    return value.re


@rule(aten.imag.default)
def _imag(value: Complex) -> Tensor:
    return value.im


@rule(aten.eq.Tensor, aten.eq.Scalar)
def _eq(left: Any, right: Any) -> Tensor:
    (a, b), (c, d) = parts(left), parts(right)
    return (a == c) & ((0.0 if b is None else b) == (0.0 if d is None else d))


@rule(aten.ne.Tensor, aten.ne.Scalar)
def _ne(left: Any, right: Any) -> Tensor:
    (a, b), (c, d) = parts(left), parts(right)
    return (a != c) | ((0.0 if b is None else b) != (0.0 if d is None else d))


@rule(aten.where.self)
def _where(condition: Tensor, left: Any, right: Any) -> Complex:
    (a, b), (c, d) = parts(left), parts(right)
    b, d = (0.0 if b is None else b), (0.0 if d is None else d)
    return Complex(torch.where(condition, a, c), torch.where(condition, b, d))
