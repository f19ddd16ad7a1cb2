"""RMS norms whose rows are quantised by scales of their own.

After Ascend's API reference of torch_npu, page npu_add_rms_norm_dynamic_quant, and of its
kernels, page aclnnRmsNormDynamicMxQuant."""

from __future__ import annotations

from typing import Annotated

import torch
from torch import Tensor

from ..checks import check
from ..definition import npu_operator
from ..element_types import element_type
from ..quantisation.blocks import mx_blocks
from ..quantisation.quantise import smoothed_rows
from ..quantisation.stored import ROW_TYPES
from .rms_norm import add_rms_norm, rms_norm
from .rms_norm_quant import plus_beta


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
    y_dtype: int | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """npu_add_rms_norm, plus `beta`, then npu_dynamic_quant with each of two smooth
    scales.

    output_mask  which of the two results are wanted; None: the first, and the second if
                 it has a smooth scale. The others have one element, 0
    y_dtype      as dst_type of npu_dynamic_quant

    Returns (y1, y2, sum, scale1, scale2). RuntimeError: another shape or dtype.
    """
    name = "npu_add_rms_norm_dynamic_quant"
    wanted = output_mask or [True, smooth_scale2 is not None]
    check(len(wanted) == 2, name, "output_mask must have two elements")
    total, y, _ = add_rms_norm(x1, x2, gamma, epsilon, name)
    rows = plus_beta(y, beta, gamma, name).to(x1.dtype)
    number = 1 if y_dtype is None else y_dtype
    element = element_type(number, name, "y_dtype", ROW_TYPES)
    found = []
    for is_wanted, smooth, what in (
        (wanted[0], smooth_scale1, "smooth_scale1"),
        (wanted[1], smooth_scale2, "smooth_scale2"),
    ):
        if is_wanted:
            found.append(smoothed_rows(rows, smooth, element, name, what))
        else:
            nothing = rows.new_zeros(1, dtype=torch.float32)
            found.append((nothing.to(element.stored), nothing))
    (y1, scale1), (y2, scale2) = found
    return y1, y2, total, scale1, scale2


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
    rows = plus_beta(y, beta, gamma, name).to(x.dtype)
    made, scales = _mx_rows(rows, name, scale_alg, round_mode, dst_type)
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
    rows = plus_beta(y, beta, gamma, name).to(x1.dtype)
    made, scales = _mx_rows(rows, name, scale_alg, round_mode, dst_type)
    return made, total, scales, rstd


def _mx_rows(
    rows: Tensor, name: str, algorithm: int, rounding: str, number: int
) -> tuple[Tensor, Tensor]:
    check(algorithm in (0, 1), name, f"scale_alg must be 0 or 1, got {algorithm}")
    blocks = mx_blocks(name, number, rounding, algorithm=algorithm)
    width = rows.shape[-1]
    even = width % 2 == 0 or not blocks.element.is_packed
    check(even, name, f"the last dimension of x must be even, got {width}")
    return blocks.quantise(rows)
