"""RMS norms and the rotary embedding of torch_npu.

An operator that is joined to a norm reads the norm's result as it is stored. So the
joined operator gives the bits of the two single ones."""

from __future__ import annotations

from typing import Annotated

import torch
from torch import Tensor

from ..checks import check, check_dtype, check_shape
from ..definition import npu_operator
from ..quantisation.quantise import quantise_by, smoothed_rows
from ..schema import Reserved


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
def npu_add_rms_norm_quant(
    x1: Tensor,
    x2: Tensor,
    gamma: Tensor,
    scales1: Tensor,
    zero_points1: Tensor | None,
    beta: Tensor | None = None,
    scales2: Tensor | None = None,
    zero_points2: Tensor | None = None,
    *,
    axis: int = -1,
    epsilon: float = 1e-6,
    div_mode: bool = True,
    dst_type: Reserved[int | None] = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """npu_add_rms_norm, plus `beta`, quantised to int8.

    scales1, zero_points1  for the first result
    scales2, zero_points2  for the second result, which is empty without scales2

    The third result is the sum x1 + x2. RuntimeError: another shape, dtype or axis.
    """
    name = "npu_add_rms_norm_quant"
    check(axis in (-1, x1.dim() - 1), name, f"axis must be -1, got {axis}")
    total, y, _ = add_rms_norm(x1, x2, gamma, epsilon, name)
    check(
        scales2 is not None or zero_points2 is None,
        name,
        "zero_points2 needs scales2",
    )
    stored = _plus(y, beta, name).to(x1.dtype)
    results = [
        stored.new_empty(0, dtype=torch.int8)
        if scales is None
        else quantise_by(stored, scales, points, torch.int8, -1, div_mode, name, which)
        for scales, points, which in (
            (scales1, zero_points1, "1"),
            (scales2, zero_points2, "2"),
        )
    ]
    return results[0], results[1], total


@npu_operator
def npu_add_rms_norm_dynamic_quant(
    x1: Tensor,
    x2: Tensor,
    gamma: Tensor,
    *,
    smooth_scale1: Tensor | None = None,
    smooth_scale2: Tensor | None = None,
    beta: Tensor | None = None,
    epsilon: float = 1e-6,
    output_mask: Annotated[list[bool] | None, "bool[2]?"] = None,
    y_dtype: Reserved[int | None] = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """npu_add_rms_norm, plus `beta`, then npu_dynamic_quant with each of two smooth
    scales.

    output_mask  which of the two results are wanted; None: the first, and the second if
                 it has a smooth scale. The others are empty

    Returns (y1, y2, sum, scale1, scale2). RuntimeError: another shape or dtype.
    """
    name = "npu_add_rms_norm_dynamic_quant"
    wanted = output_mask or [True, smooth_scale2 is not None]
    check(len(wanted) == 2, name, "output_mask must have two elements")
    total, y, _ = add_rms_norm(x1, x2, gamma, epsilon, name)
    stored = _plus(y, beta, name).to(x1.dtype)
    found = []
    for is_wanted, smooth, what in (
        (wanted[0], smooth_scale1, "smooth_scale1"),
        (wanted[1], smooth_scale2, "smooth_scale2"),
    ):
        if is_wanted:
            found.append(smoothed_rows(stored, smooth, None, name, what))
        else:
            nothing = stored.new_empty(0, dtype=torch.float32)
            found.append((nothing.to(torch.int8), nothing))
    (y1, scale1), (y2, scale2) = found
    return y1, y2, total, scale1, scale2


def _plus(y: Tensor, beta: Tensor | None, name: str) -> Tensor:
    check_shape(beta, name, "beta", (y.shape[-1],))
    return y if beta is None else y + beta.to(torch.float32)
