"""npu_swiglu, and the gates of operators that are joined to it."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from ..checks import check, check_dtype
from ..definition import npu_operator


def halves(values: Tensor) -> tuple[Tensor, Tensor]:
    left, right = values.chunk(2, -1)
    return left, right


def interleaved(values: Tensor) -> tuple[Tensor, Tensor]:
    return values[..., 0::2], values[..., 1::2]


def swiglu(values: Tensor, activate_left: bool) -> Tensor:
    left, right = halves(values)
    if activate_left:
        return functional.silu(left) * right
    return functional.silu(right) * left


def clamped_glu(
    gate: Tensor, linear: Tensor, limit: float, alpha: float, bias: float
) -> Tensor:
    gate = gate.clamp(max=limit)
    linear = linear.clamp(-limit, limit)
    return gate * torch.sigmoid(alpha * gate) * (linear + bias)


@npu_operator
def npu_swiglu(input: Tensor, dim: int = -1) -> Tensor:
    """silu of the first half along `dim`, times the second half, computed in f32. The
    result has the input's dtype. RuntimeError: an odd size, or another dtype."""
    name = "npu_swiglu"
    check_dtype(input, name, "input")
    check(
        -input.dim() <= dim < input.dim(),
        name,
        f"input has {input.dim()} dimensions, dim must be one of them, got {dim}",
    )
    size = input.shape[dim]
    check(size % 2 == 0, name, f"dimension {dim} of input must be even, got {size}")
    left, right = input.to(torch.float32).chunk(2, dim)
    return (functional.silu(left) * right).to(input.dtype)
