"""npu_dequant_swiglu_quant: sums of integers through a gate to int8."""

from __future__ import annotations

import torch
from torch import Tensor

from ..activations.swiglu import clamped_glu, halves, interleaved, swiglu
from ..checks import FLOATS, check, check_dtype, check_shape
from ..definition import npu_operator
from ..element_types import element_type
from .rows import group_of_rows, of_group, unit_for_zero
from .stored import largest_of, stored


@npu_operator
def npu_dequant_swiglu_quant(
    x: Tensor,
    *,
    weight_scale: Tensor | None = None,
    activation_scale: Tensor | None = None,
    bias: Tensor | None = None,
    quant_scale: Tensor | None = None,
    quant_offset: Tensor | None = None,
    group_index: Tensor | None = None,
    activate_left: bool = False,
    quant_mode: int = 0,
    dst_type: int | None = None,
    round_mode: int | None = None,
    activate_dim: int | None = None,
    swiglu_mode: int = 0,
    clamp_limit: float = 7.0,
    glu_alpha: float = 1.702,
    glu_bias: float = 1.0,
) -> tuple[Tensor, Tensor]:
    """Dequantises, gates one half of each row by the other, and quantises. Computed in
    f32.

    x            (T, 2H) int32 or a float
    group_index  (G,): the number of rows of each group, in order; rows beyond are zeros
    quant_mode   0 divides by `quant_scale` and returns zeros as scales; 1 scales each
                 row by its largest element

    dst_type     int8 (None), float8_e4m3fn, float8_e5m2, or hifloat8 in uint8

    Returns (T, H) of this type, and f32 (T,). RuntimeError: another shape, dtype or mode.
    """
    name = "npu_dequant_swiglu_quant"
    check(x.dim() >= 2, name, "x must have 2 or more dimensions")
    check(
        x.shape[-1] % 2 == 0,
        name,
        f"x must have an even last dimension, got {x.shape[-1]}",
    )
    check(quant_mode in (0, 1), name, f"no such quant_mode: {quant_mode}")
    check(swiglu_mode in (0, 1, 2), name, f"no such swiglu_mode: {swiglu_mode}")
    element = element_type(
        1 if dst_type is None else dst_type, name, "dst_type", _RESULTS
    )
    for what, value, known in (
        ("round_mode", round_mode, (None, 0)),
        ("activate_dim", activate_dim, (None, -1, x.dim() - 1)),
    ):
        check(value in known, name, f"{what} must be one of {known}, got {value}")
    rows = x.reshape(-1, x.shape[-1])
    _check_tables(rows, weight_scale, quant_scale, quant_offset, group_index)
    groups = None
    if group_index is not None:
        check(bias is None, name, "bias must be None when there are groups")
        groups = group_of_rows(group_index.cumsum(0), rows.shape[0])
    values = _dequantise(rows, weight_scale, activation_scale, bias, groups)
    if swiglu_mode == 0:
        gated = swiglu(values, activate_left)
    else:
        parts = interleaved(values) if swiglu_mode == 1 else halves(values)
        if swiglu_mode == 2 and not activate_left:
            parts = parts[::-1]
        gated = clamped_glu(*parts, clamp_limit, glu_alpha, glu_bias)
    if quant_mode == 1:
        if quant_scale is not None:
            gated = gated * of_group(quant_scale, groups)
        scale = unit_for_zero(gated.abs().amax(-1) / largest_of(element))
        quantised = stored(gated / scale.unsqueeze(-1), element)
    else:
        if quant_scale is not None:
            gated = gated / of_group(quant_scale, groups)
        if quant_offset is not None:
            gated = gated + of_group(quant_offset, groups)
        quantised = stored(gated, element)
        scale = gated.new_zeros(rows.shape[0])
    if groups is None or group_index is None:
        return quantised, scale
    inside = groups < group_index.shape[0]
    # PyTorch chooses among bytes, and not among float8.
    data = quantised.view(torch.int8)
    data = torch.where(inside.unsqueeze(-1), data, torch.zeros_like(data))
    return data.view(quantised.dtype), torch.where(
        inside, scale, torch.zeros_like(scale)
    )


_RESULTS = ("int8", "float8_e4m3fn", "float8_e5m2", "hifloat8")


def _check_tables(
    x: Tensor,
    weight_scale: Tensor | None,
    quant_scale: Tensor | None,
    quant_offset: Tensor | None,
    group_index: Tensor | None,
) -> None:
    """Checks the tables that have a row for each group."""
    name, width = "npu_dequant_swiglu_quant", x.shape[-1]
    check_dtype(group_index, name, "group_index", (torch.int64,))
    check(
        group_index is None or group_index.dim() == 1,
        name,
        "group_index must have one dimension",
    )
    count = 1 if group_index is None else group_index.shape[0]
    if x.dtype == torch.int32:
        check_dtype(weight_scale, name, "weight_scale")
        one = [(width,), (width, 1)] if count == 1 else []
        check_shape(weight_scale, name, "weight_scale", (count, width), *one)
    for what, table in (("quant_scale", quant_scale), ("quant_offset", quant_offset)):
        check_dtype(table, name, what)
        one = [(width // 2,)] if count == 1 else []
        check_shape(table, name, what, (count, width // 2), (count, 1), (count,), *one)


def _dequantise(
    x: Tensor,
    weight_scale: Tensor | None,
    activation_scale: Tensor | None,
    bias: Tensor | None,
    groups: Tensor | None,
) -> Tensor:
    name = "npu_dequant_swiglu_quant"
    if x.dtype != torch.int32:
        check_dtype(x, name, "x", (torch.int32, *FLOATS))
        for what, value in (("activation_scale", activation_scale), ("bias", bias)):
            check(value is None, name, f"{what} must be None for x of {x.dtype}")
        return x.to(torch.float32)
    check(weight_scale is not None, name, "weight_scale is needed for x of int32")
    assert weight_scale is not None
    rows, width = x.shape
    check_dtype(activation_scale, name, "activation_scale")
    check_shape(activation_scale, name, "activation_scale", (rows,), (rows, 1))
    check_dtype(bias, name, "bias", (torch.int32, *FLOATS))
    check_shape(bias, name, "bias", (width,), (1, width))
    if bias is not None and bias.dtype == torch.int32:
        x = x + bias
    table = weight_scale.reshape(-1, width)
    values = x.to(torch.float32) * of_group(table, groups)
    if activation_scale is not None:
        values = values * activation_scale.to(torch.float32).reshape(-1, 1)
    if bias is not None and bias.dtype != torch.int32:
        values = values + bias.to(torch.float32)
    return values
