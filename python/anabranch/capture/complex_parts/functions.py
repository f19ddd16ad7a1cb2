"""Rules of functions of one complex number."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from .arithmetic import add, angle_of, multiply, reciprocal, size_of
from .values import Complex, rule

aten = torch.ops.aten


@rule(aten.polar.default)
def _polar(size: Tensor, angle: Tensor) -> Complex:
    return Complex(size * torch.cos(angle), size * torch.sin(angle))


@rule(aten.exp.default)
def _exp(value: Complex) -> Complex:
    return _polar(torch.exp(value.re), value.im)


@rule(aten.log.default)
def _log(value: Complex) -> Complex:
    return Complex(torch.log(size_of(value)), angle_of(value))


@rule(aten.log2.default)
def _log2(value: Complex) -> Complex:
    return multiply(_log(value), 1 / math.log(2))


@rule(aten.log10.default)
def _log10(value: Complex) -> Complex:
    return multiply(_log(value), 1 / math.log(10))


@rule(aten.sigmoid.default)
def _sigmoid(value: Complex) -> Complex:
    return reciprocal(add(_exp(Complex(-value.re, -value.im)), 1.0))


@rule(aten.sqrt.default)
def _sqrt(value: Complex) -> Complex:
    """The larger part of the root is a sum without cancellation, and the other one
    follows from it. Eighths of the parts have a size that does not overflow."""
    re, im = value.re / 8, value.im / 8
    larger = 2 * torch.sqrt(torch.hypot(re, im) + re.abs())
    smaller = torch.where(larger == 0, 0.0, value.im.abs() / (2 * larger))
    is_left = value.re < 0
    return Complex(
        torch.where(is_left, smaller, larger),
        torch.copysign(torch.where(is_left, larger, smaller), value.im),
    )


@rule(aten.rsqrt.default)
def _rsqrt(value: Complex) -> Complex:
    return reciprocal(_sqrt(value))


@rule(aten.sinh.default)
def _sinh(value: Complex) -> Complex:
    re, im = value
    return Complex(torch.sinh(re) * torch.cos(im), torch.cosh(re) * torch.sin(im))


@rule(aten.cosh.default)
def _cosh(value: Complex) -> Complex:
    re, im = value
    return Complex(torch.cosh(re) * torch.cos(im), torch.sinh(re) * torch.sin(im))


@rule(aten.tanh.default)
def _tanh(value: Complex) -> Complex:
    """By the tangents of the parts, whose squares do not overflow."""
    hyperbolic, tangent = torch.tanh(value.re), torch.tan(value.im)
    below = 1 + (hyperbolic * tangent) * (hyperbolic * tangent)
    slope = 1 / torch.cosh(value.re)
    return Complex(
        hyperbolic * (1 + tangent * tangent) / below,
        tangent * slope * slope / below,
    )


def _turned(value: Complex) -> Complex:
    """The number times i."""
    return Complex(-value.im, value.re)


def _turned_back(value: Complex) -> Complex:
    return Complex(value.im, -value.re)


@rule(aten.sin.default)
def _sin(value: Complex) -> Complex:
    return _turned_back(_sinh(_turned(value)))


@rule(aten.cos.default)
def _cos(value: Complex) -> Complex:
    return _cosh(_turned(value))


@rule(aten.tan.default)
def _tan(value: Complex) -> Complex:
    return _turned_back(_tanh(_turned(value)))
