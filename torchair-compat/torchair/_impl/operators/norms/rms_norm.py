"""RMS norms, and those of sums.

An operator that is joined to a norm reads the norm's result as it is stored. So the
joined operator gives the bits of the two single ones."""

from __future__ import annotations

import torch
from torch import Tensor

from ..checks import check, check_dtype
from ..definition import npu_operator
from ..schema import Written


def rms_norm(
    x: Tensor, gamma: Tensor, epsilon: float, name: str, argument: str = "x1"
) -> tuple[Tensor, Tensor]:
    """The normalised x, and the reciprocal root of the mean square, both in f32. The
    normalised dimensions of the latter have size 1."""
    check_dtype(x, name, argument)
    check_dtype(gamma, name, "gamma")
    check(
        0 < gamma.dim() <= x.dim() and x.shape[-gamma.dim() :] == gamma.shape,
        name,
        f"gamma of shape {tuple(gamma.shape)} must have the last dimensions of the rows,"
        f" {tuple(x.shape)}",
    )
    wide = x.to(torch.float32)
    dims = list(range(-gamma.dim(), 0))
    rstd = torch.rsqrt(wide.square().mean(dims, keepdim=True) + epsilon)
    return wide * rstd * gamma.to(torch.float32), rstd


@npu_operator
def npu_rms_norm(
    self: Tensor, gamma: Tensor, epsilon: float = 1e-6
) -> tuple[Tensor, Tensor]:
    """x / sqrt(mean(x^2) + epsilon) * gamma, computed in f32.

    self   a float tensor
    gamma  the shape of the last dimensions of self, which are normalised

    Returns the norm in self's dtype, and the reciprocal root in f32. RuntimeError:
    another shape or dtype.
    """
    y, rstd = rms_norm(self, gamma, epsilon, "npu_rms_norm", "self")
    return y.to(self.dtype), rstd


@npu_operator
def npu_add_rms_norm(
    x1: Tensor, x2: Tensor, gamma: Tensor, epsilon: float = 1e-6
) -> tuple[Tensor, Tensor, Tensor]:
    """npu_rms_norm of x1 + x2, which have the same shape and dtype. The third result is
    the sum, rounded to its dtype. RuntimeError: another shape or dtype."""
    total, y, rstd = add_rms_norm(x1, x2, gamma, epsilon, "npu_add_rms_norm")
    return y.to(x1.dtype), rstd, total


def add_rms_norm(
    x1: Tensor, x2: Tensor, gamma: Tensor, epsilon: float, name: str
) -> tuple[Tensor, Tensor, Tensor]:
    """The sum in its dtype, and its norm and reciprocal root in f32."""
    check(
        x1.shape == x2.shape and x1.dtype == x2.dtype,
        name,
        "x1 and x2 must have the same shape and dtype",
    )
    total = x1 + x2
    return total, *rms_norm(total, gamma, epsilon, name)


@npu_operator
def npu_add_rms_norm_cast(
    x1: Tensor, x2: Tensor, gamma: Tensor, epsilon: float = 1e-6
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """npu_add_rms_norm with its first result twice: in f32, then in x1's dtype.
    RuntimeError: another shape or dtype."""
    name = "npu_add_rms_norm_cast"
    total, y, rstd = add_rms_norm(x1, x2, gamma, epsilon, name)
    stored = y.to(x1.dtype)
    return stored.to(torch.float32), stored, rstd, total


@npu_operator
def npu_add_rms_norm_v2(
    x1: Written, x2: Written, gamma: Tensor, epsilon: float = 1e-06
) -> Tensor:
    """npu_add_rms_norm that writes the norm into x1 and the sum into x2. Returns the
    reciprocal root in f32. RuntimeError: another shape or dtype."""
    total, y, rstd = add_rms_norm(x1, x2, gamma, epsilon, "npu_add_rms_norm_v2")
    x1.copy_(y)
    x2.copy_(total)
    return rstd


@npu_operator
def npu_add_rms_norm_v2_functional(
    x1: Tensor, x2: Tensor, gamma: Tensor, epsilon: float = 1e-06
) -> tuple[Tensor, Tensor, Tensor]:
    """npu_add_rms_norm in another order: (reciprocal root, norm, sum). RuntimeError:
    another shape or dtype."""
    name = "npu_add_rms_norm_v2_functional"
    total, y, rstd = add_rms_norm(x1, x2, gamma, epsilon, name)
    return rstd, y.to(x1.dtype), total
