"""RMS norms whose results are quantised, or whose gamma counts from one.

After Ascend's API reference of torch_npu, page npu_rms_norm_quant, and of its kernels,
pages aclnnGemmaRmsNorm and aclnnRmsNormDynamicMxQuant."""

from __future__ import annotations

import torch
from torch import Tensor

from ..checks import FLOATS, check, check_dtype, check_shape
from ..definition import npu_operator
from ..element_types import element_type
from ..quantisation.blocks import mx_blocks
from ..quantisation.integers import pack_int4, to_int8
from .rms_norm import add_rms_norm, rms_norm

_RESULTS = ("int8", "quint4x2", "float8_e4m3fn", "float8_e5m2", "hifloat8")


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
    width = x.shape[-1] if x.dim() else 1
    check_dtype(x, name, "x")
    for what, table in (("gamma", gamma), ("beta", beta)):
        check_dtype(table, name, what, (x.dtype,))
        check_shape(table, name, what, (width,), (1, width))
    check_dtype(scale, name, "scale", tuple({x.dtype, torch.float32}))
    check_dtype(offset, name, "offset", (torch.int8, torch.int32, *FLOATS))
    for what, table in (("scale", scale), ("offset", offset)):
        check_shape(table, name, what, (1,))
    number = 1 if dst_dtype is None else dst_dtype
    element = element_type(number, name, "dst_dtype", _RESULTS)
    y, _ = rms_norm(x, gamma.reshape(-1), epsilon, name, "x")
    y = y + beta.reshape(-1).to(torch.float32)
    values = y * scale.to(torch.float32) + offset.to(torch.float32)
    if element.floats is not None:
        return element.store(element.floats.encode(values))
    if element.name == "int8":
        return to_int8(values)
    check(width % 8 == 0, name, f"quint4x2 needs rows of a multiple of 8, got {width}")
    return pack_int4(values.round().clamp(-8, 7).to(torch.int8))


@npu_operator
def npu_rms_norm_dynamic_mx_quant(
    x: Tensor,
    gamma: Tensor,
    *,
    beta: Tensor | None = None,
    epsilon: float = 1e-06,
    scale_alg: int = 0,
    round_mode: str = "rint",
    dst_type: int = 296,
) -> tuple[Tensor, Tensor, Tensor]:
    """npu_rms_norm, plus `beta`, then npu_dynamic_mx_quant of its rows.

    scale_alg  0 or 1

    Returns (elements, scales, reciprocal root of the mean square). RuntimeError: another
    shape, dtype or option.
    """
    name = "npu_rms_norm_dynamic_mx_quant"
    y, rstd = rms_norm(x, gamma, epsilon, name, "x")
    stored = _plus(y, beta, gamma, name).to(x.dtype)
    made, scales = _mx_rows(stored, name, scale_alg, round_mode, dst_type)
    return made, scales, rstd


@npu_operator
def npu_add_rms_norm_dynamic_mx_quant(
    x1: Tensor,
    x2: Tensor,
    gamma: Tensor,
    *,
    beta: Tensor | None = None,
    epsilon: float = 1e-06,
    scale_alg: int = 0,
    round_mode: str = "rint",
    dst_type: int = 296,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """npu_add_rms_norm, plus `beta`, then npu_dynamic_mx_quant of its rows.

    scale_alg  0 or 1

    Returns (elements, x1 + x2, scales, reciprocal root of the mean square). RuntimeError:
    another shape, dtype or option.
    """
    name = "npu_add_rms_norm_dynamic_mx_quant"
    total, y, rstd = add_rms_norm(x1, x2, gamma, epsilon, name)
    stored = _plus(y, beta, gamma, name).to(x1.dtype)
    made, scales = _mx_rows(stored, name, scale_alg, round_mode, dst_type)
    return made, total, scales, rstd


def _plus(y: Tensor, beta: Tensor | None, gamma: Tensor, name: str) -> Tensor:
    if beta is None:
        return y
    check_dtype(beta, name, "beta")
    check_shape(beta, name, "beta", tuple(gamma.shape))
    return y + beta.to(torch.float32)


def _mx_rows(
    rows: Tensor, name: str, algorithm: int, rounding: str, number: int
) -> tuple[Tensor, Tensor]:
    check(algorithm in (0, 1), name, f"scale_alg must be 0 or 1, got {algorithm}")
    blocks = mx_blocks(name, number, rounding, algorithm=algorithm)
    width = rows.shape[-1]
    even = width % 2 == 0 or not blocks.element.is_packed
    check(even, name, f"the last dimension of x must be even, got {width}")
    return blocks.quantise(rows)
