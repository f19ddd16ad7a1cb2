"""Rules of matrix products of complex numbers: four products of their parts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from .arithmetic import add, multiply
from .values import Complex, rule

aten = torch.ops.aten


def _product(operator: Callable[..., Any]) -> Callable[..., Any]:
    def compute(left: Any, right: Any) -> Any:
        if not isinstance(left, Complex) or not isinstance(right, Complex):
            return NotImplemented
        (a, b), (c, d) = left, right
        return Complex(operator(a, c) - operator(b, d), operator(a, d) + operator(b, c))

    return compute


for _operator in (aten.mm, aten.bmm, aten.mv, aten.dot, aten.matmul, aten.outer):
    rule(_operator.default)(_product(_operator.default))


@rule(aten.vdot.default)
def _vdot(left: Complex, right: Complex) -> Any:
    return _product(torch.dot)(Complex(left.re, -left.im), right)


@rule(aten.linear.default)
def _linear(value: Any, weight: Any, bias: Any = None) -> Any:
    result = _product(torch.nn.functional.linear)(value, weight)
    if bias is None or result is NotImplemented:
        return result
    return add(result, bias)


def _with_addend(operator: Callable[..., Any]) -> Callable[..., Any]:
    def compute(
        addend: Any, left: Any, right: Any, beta: Any = 1, alpha: Any = 1
    ) -> Any:
        result = _product(operator)(left, right)
        if result is NotImplemented or beta == 0:
            return NotImplemented
        result = result if alpha == 1 else multiply(result, alpha)
        return add(result, addend if beta == 1 else multiply(addend, beta))

    return compute


rule(aten.addmm.default)(_with_addend(torch.mm))
rule(aten.addmv.default)(_with_addend(torch.mv))
rule(aten.baddbmm.default)(_with_addend(torch.bmm))
