"""A complex value as its real and its imaginary part, and the table of rules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import torch

Rule = TypeVar("Rule", bound=Callable[..., Any])

# The dtype of the parts of a complex tensor. complex32 has no entry: PyTorch computes it.
PART_DTYPES = {torch.complex64: torch.float32, torch.complex128: torch.float64}


class Complex(NamedTuple):
    """A complex value: two real tensors of one shape, or two nodes that make them."""

    re: Any
    im: Any


# The functions that compute operators on values whose complex tensors are `Complex`. A
# rule returns NotImplemented if it does not cover its arguments.
RULES: dict[Any, Callable[..., Any]] = {}


def rule(*operators: Any) -> Callable[[Rule], Rule]:
    """Makes a function the rule of these operators."""

    def add(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(operators, function))
        return function

    return add


def parts(value: Any) -> tuple[Any, Any]:
    """The parts of a tensor or number. The imaginary part of a real one is None."""
    if isinstance(value, Complex):
        return value
    if isinstance(value, complex):
        return value.real, value.imag
    return value, None


def widened(re: Any, im: Any) -> Complex:
    """The value of these parts, of which one may be a number or None, or smaller."""
    if not isinstance(re, torch.Tensor):
        return Complex(torch.full(im.shape, re, dtype=im.dtype), im)
    if not isinstance(im, torch.Tensor):
        return Complex(re, torch.full(re.shape, im or 0.0, dtype=_part_of(re)))
    return Complex(*torch.broadcast_tensors(re, im))


def _part_of(value: torch.Tensor) -> torch.dtype:
    """The dtype of the parts that a real tensor gets as a complex one."""
    return value.dtype if value.is_floating_point() else torch.get_default_dtype()
