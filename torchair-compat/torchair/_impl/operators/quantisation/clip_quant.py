"""Gates whose rows are clipped before they become int8.

After the operators of these names in the vendor's inference recipes."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..activations.swiglu import swiglu
from ..checks import check, check_dtype, check_shape
from ..definition import npu_operator, npu_operator_of
from .dequant_swiglu import npu_dequant_swiglu_quant
from .rows import group_of_rows


@npu_operator
def npu_swiglu_clip_quant(
    x: Tensor,
    group_index: Tensor,
    group_alpha: Tensor,
    *,
    activate_left: bool = False,
    quant_mode: int = 1,
    clamp_mode: int = 1,
) -> tuple[Tensor, Tensor]:
    """silu of one half of each row times the other, clipped to the row's largest magnitude
    times the factor of its group, and quantised to int8 by this bound over 127. Computed
    in f32.

    x            (T, 2H) bfloat16
    group_index  int64 (groups,): the number of rows of each group, in order
    group_alpha  float32 (groups,): the factor
    quant_mode, clamp_mode  must be 1

    Returns int8 (T, H) and f32 (T,); rows of no group are 0. RuntimeError: another shape,
    dtype or option.
    """
    name = "npu_swiglu_clip_quant"
    check_dtype(x, name, "x", (torch.bfloat16, torch.float16, torch.float32))
    check(x.dim() == 2, name, f"x must have 2 dimensions, got {x.dim()}")
    width = x.shape[1]
    check(width % 2 == 0, name, f"x must have an even last dimension, got {width}")
    check_dtype(group_index, name, "group_index", (torch.int64,))
    flat = group_index.dim() == 1
    check(flat, name, f"group_index must have 1 dimension, got {group_index.dim()}")
    check_dtype(group_alpha, name, "group_alpha", (torch.float32,))
    check_shape(group_alpha, name, "group_alpha", tuple(group_index.shape))
    for what, mode in (("quant_mode", quant_mode), ("clamp_mode", clamp_mode)):
        check(mode == 1, name, f"{what} must be 1, got {mode}")
    groups = group_of_rows(group_index.cumsum(0), x.shape[0])
    factor = group_alpha[groups.clamp(max=group_alpha.shape[0] - 1)]
    gated = swiglu(x.to(torch.float32), activate_left)
    scale = gated.abs().amax(-1) * factor / 127
    inside = groups < group_index.shape[0]
    divisor = torch.where(scale == 0, torch.ones_like(scale), scale).unsqueeze(-1)
    made = (gated / divisor).clamp(-127, 127).round().to(torch.int8)
    made = torch.where(inside.unsqueeze(-1), made, torch.zeros_like(made))
    return made, torch.where(inside, scale, torch.zeros_like(scale))


@npu_operator_of(
    "(Tensor x, *, Tensor? weight_scale=None, Tensor? activation_scale=None, Tensor?"
    " bias=None, Tensor? quant_scale=None, Tensor? quant_offset=None, Tensor?"
    " group_index=None, bool activate_left=False, int quant_mode=0, int? dst_type=None,"
    " int? round_mode=None, int? activate_dim=None, int swiglu_mode=0, float"
    " clamp_limit=7.0, float glu_alpha=1.702, float glu_bias=1.0) -> (Tensor, Tensor)"
)
def npu_dequant_swiglu_clamp_quant(
    x: Tensor, *, swiglu_mode: int = 0, **options: Any
) -> tuple[Tensor, Tensor]:
    """npu_dequant_swiglu_quant, with a swiglu_mode 1 that clamps halves, as its mode 2,
    and no other variant. RuntimeError: another shape, dtype or mode."""
    name = "npu_dequant_swiglu_clamp_quant"
    check(swiglu_mode in (0, 1), name, f"no such swiglu_mode: {swiglu_mode}")
    mode = 2 * swiglu_mode
    return npu_dequant_swiglu_quant(x, swiglu_mode=mode, **options)
