"""RMS norms that are quantised by given scales, or whose gamma counts from one.

After Ascend's API reference of torch_npu, pages npu_add_rms_norm_quant and
npu_rms_norm_quant, and of its kernels, page aclnnGemmaRmsNorm."""

from __future__ import annotations

import torch
from torch import Tensor

from ..checks import FLOATS, check, check_dtype, check_shape
from ..definition import npu_operator
from ..element_types import ElementType, element_type
from ..quantisation.stored import ROW_TYPES, stored
from .rms_norm import add_rms_norm, rms_norm

_OFFSETS = (torch.int8, torch.int32, *FLOATS)
_FOR_SUMS = tuple(kind for kind in ROW_TYPES if kind != "quint4x2")


@npu_operator
def npu_gemma_rms_norm(
    self: Tensor, gamma: Tensor, epsilon: float = 1e-06
) -> tuple[Tensor, Tensor]:
    """x / sqrt(mean(x^2) + epsilon) * (1 + gamma), computed in f32.

    self   a float tensor
    gamma  the shape of the last dimensions of self, which are normalised

    Returns the norm in self's dtype, and the reciprocal root in f32. RuntimeError: another
    shape or dtype.
    """
    name = "npu_gemma_rms_norm"
    check_dtype(gamma, name, "gamma")
    y, rstd = rms_norm(self, gamma.to(torch.float32) + 1, epsilon, name, "self")
    return y.to(self.dtype), rstd


@npu_operator
def npu_rms_norm_quant(
    x: Tensor,
    gamma: Tensor,
    beta: Tensor,
    scale: Tensor,
    offset: Tensor,
    epsilon: float = 1e-06,
    *,
    dst_dtype: int | None = None,
) -> Tensor:
    """The RMS norm of x times gamma plus beta, times scale plus offset, rounded to
    `dst_dtype`. Computed in f32.

    gamma, beta    (n,) or (1, n), in x's dtype
    scale, offset  (1,); scale in x's dtype or f32, offset int8, int32 or a float
    dst_dtype      int8 (None), quint4x2 (int32 (..., n / 8) with eight int4 each),
                   float8_e4m3fn, float8_e5m2, or hifloat8 in uint8

    RuntimeError: another shape or dtype.
    """
    name = "npu_rms_norm_quant"
    for what, table in (("scale", scale), ("offset", offset)):
        check_shape(table, name, what, (1,))
    y, _ = _rows_norm(x, gamma, beta, epsilon, name)
    return _quantised(
        y, scale, offset, False, _element(dst_dtype, name, "dst_dtype"), name
    )


@npu_operator
def npu_rms_norm_quant_v2(
    x: Tensor,
    gamma: Tensor,
    scale: Tensor,
    *,
    offset: Tensor | None = None,
    beta: Tensor | None = None,
    epsilon: float = 1e-06,
    div_mode: bool = True,
    dst_dtype: int | None = None,
) -> tuple[Tensor, Tensor]:
    """npu_rms_norm_quant that divides by the scale, unless without `div_mode`, and returns
    the reciprocal root of the mean square too, in f32.

    scale, offset  (1,), or of the shape of gamma

    RuntimeError: another shape or dtype.
    """
    name = "npu_rms_norm_quant_v2"
    y, rstd = _rows_norm(x, gamma, beta, epsilon, name)
    element = _element(dst_dtype, name, "dst_dtype")
    return _quantised(y, scale, offset, div_mode, element, name), rstd


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
    dst_type: int | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """npu_add_rms_norm, plus `beta`, divided by scales, or multiplied without `div_mode`,
    plus offsets, and rounded.

    scales1, zero_points1  of the first result: (1,), or of the shape of gamma
    scales2, zero_points2  of the second result, which is rounded as it is without scales2
    dst_type               int8 (None), float8_e4m3fn, float8_e5m2, or hifloat8 in uint8

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
    number = 1 if dst_type is None else dst_type
    element = element_type(number, name, "dst_type", _FOR_SUMS)
    rows = plus_beta(y, beta, gamma, name).to(x1.dtype)
    first = (scales1, zero_points1, div_mode, element, name)
    y1 = _quantised(rows, *first, ("scales1", "zero_points1"))
    if scales2 is None:
        return y1, stored(rows.to(torch.float32), element), total
    second = (scales2, zero_points2, div_mode, element, name)
    return y1, _quantised(rows, *second, ("scales2", "zero_points2")), total


def plus_beta(y: Tensor, beta: Tensor | None, gamma: Tensor, name: str) -> Tensor:
    if beta is None:
        return y
    check_dtype(beta, name, "beta")
    check_shape(beta, name, "beta", tuple(gamma.shape))
    return y + beta.to(torch.float32)


def _rows_norm(
    x: Tensor, gamma: Tensor, beta: Tensor | None, epsilon: float, name: str
) -> tuple[Tensor, Tensor]:
    """The norm of rows, plus beta, and the reciprocal root. Tables may be (1, n)."""
    width = x.shape[-1] if x.dim() else 1
    check_dtype(x, name, "x")
    for what, table in (("gamma", gamma), ("beta", beta)):
        check_dtype(table, name, what, (x.dtype,))
        check_shape(table, name, what, (width,), (1, width))
    y, rstd = rms_norm(x, gamma.reshape(-1), epsilon, name, "x")
    if beta is not None:
        y = y + beta.reshape(-1).to(torch.float32)
    return y, rstd


def _element(number: int | None, name: str, argument: str) -> ElementType:
    return element_type(1 if number is None else number, name, argument, ROW_TYPES)


def _quantised(
    y: Tensor,
    scale: Tensor,
    offset: Tensor | None,
    divides: bool,
    element: ElementType,
    name: str,
    which: tuple[str, str] = ("scale", "offset"),
) -> Tensor:
    """y by scales of one element, or of its last dimensions."""
    check_dtype(scale, name, which[0])
    check_dtype(offset, name, which[1], _OFFSETS)
    dims = min(scale.dim(), y.dim())
    known = (1,), tuple(y.shape[-dims:]) if dims else ()
    check_shape(scale, name, which[0], *known, (1, y.shape[-1]))
    check_shape(offset, name, which[1], tuple(scale.shape), (1,))
    factor = scale.to(torch.float32)
    values = y / factor if divides else y * factor
    if offset is not None:
        values = values + offset.to(torch.float32)
    return stored(values, element)
