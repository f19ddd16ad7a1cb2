"""Formulas of one argument, in float64."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

# Where it returns NotImplemented, PyTorch runs the operator.
Formula = Callable[[torch.Tensor], Any]


def in_float64(formula: Formula) -> Formula:
    def compute(x: torch.Tensor) -> Any:
        if x.is_complex():
            return NotImplemented
        dtype = x.dtype if x.is_floating_point() else torch.get_default_dtype()
        return formula(x.to(torch.float64)).to(dtype)

    return compute


def polynomial(x: torch.Tensor, coefficients: Sequence[float]) -> torch.Tensor:
    """The highest power's coefficient is the first."""
    result = torch.full_like(x, coefficients[0])
    for coefficient in coefficients[1:]:
        result = result * x + coefficient
    return result
