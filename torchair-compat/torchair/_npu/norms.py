"""RMS norms and the rotary embedding of torch_npu."""

from __future__ import annotations

import torch
from torch import Tensor

from .library import check, operator


def _rms_norm(
    x: Tensor, gamma: Tensor, epsilon: float, name: str
) -> tuple[Tensor, Tensor]:
    """In f32: the normalised x, and the reciprocal of the root of the mean square,
    the normalised dimensions kept as 1."""
    check(
        0 < gamma.dim() <= x.dim() and x.shape[-gamma.dim() :] == gamma.shape,
        name,
        f"gamma of shape {tuple(gamma.shape)} must have the last dimensions of x,"
        f" {tuple(x.shape)}",
    )
    wide = x.to(torch.float32)
    dims = list(range(-gamma.dim(), 0))
    rstd = torch.rsqrt(wide.square().mean(dims, keepdim=True) + epsilon)
    return wide * rstd * gamma.to(torch.float32), rstd


@operator("(Tensor self, Tensor gamma, float epsilon=1e-06) -> (Tensor, Tensor)")
def npu_rms_norm(
    self: Tensor, gamma: Tensor, epsilon: float = 1e-6
) -> tuple[Tensor, Tensor]:
    """x / sqrt(mean(x^2) + epsilon) * gamma in f32, cast to x's dtype; and the f32
    reciprocal root. Raises RuntimeError."""
    y, rstd = _rms_norm(self, gamma, epsilon, "npu_rms_norm")
    return y.to(self.dtype), rstd


@operator(
    "(Tensor x1, Tensor x2, Tensor gamma, float epsilon=1e-06)"
    " -> (Tensor, Tensor, Tensor)"
)
def npu_add_rms_norm(
    x1: Tensor, x2: Tensor, gamma: Tensor, epsilon: float = 1e-6
) -> tuple[Tensor, Tensor, Tensor]:
    """npu_rms_norm of x1 + x2, and that sum, rounded to its dtype, as third result.
    Raises RuntimeError."""
    name = "npu_add_rms_norm"
    check(
        x1.shape == x2.shape and x1.dtype == x2.dtype,
        name,
        "x1 and x2 must have the same shape and dtype",
    )
    total = x1 + x2
    y, rstd = _rms_norm(total, gamma, epsilon, name)
    return y.to(x1.dtype), rstd, total


@operator("(Tensor self, Tensor r1, Tensor r2, str rotary_mode='half') -> Tensor")
def npu_rotary_mul(
    self: Tensor, r1: Tensor, r2: Tensor, rotary_mode: str = "half"
) -> Tensor:
    """x * r1 + rotated(x) * r2. "half" turns (a, b) into (-b, a), "interleave" each pair
    of neighbours. Raises RuntimeError."""
    name = "npu_rotary_mul"
    check(
        rotary_mode in ("half", "interleave"),
        name,
        f"no such rotary_mode: {rotary_mode!r}",
    )
    check(self.shape[-1] % 2 == 0, name, "x must have an even last dimension")
    if rotary_mode == "half":
        left, right = self.chunk(2, -1)
        turned = torch.cat((-right, left), -1)
    else:
        turned = torch.stack((-self[..., 1::2], self[..., 0::2]), -1).flatten(-2)
    return self * r1 + turned * r2
