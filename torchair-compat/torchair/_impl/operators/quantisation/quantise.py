"""Operators of torch_npu that quantise activations, and gates before that."""

from __future__ import annotations

import torch
from torch import Tensor

from ..checks import check, check_dtype, check_shape
from ..definition import npu_operator
from ..schema import Reserved
from .integers import pack_int4
from .rows import group_of_rows, of_group, row_scale


@npu_operator
def npu_dynamic_quant(
    input: Tensor,
    *,
    smooth_scales: Tensor | None = None,
    group_index: Tensor | None = None,
    dst_type: torch.dtype | None = None,
    quant_mode: Reserved[str] = "pertoken",
    dst_type_max: Reserved[float] = 0.0,
) -> tuple[Tensor, Tensor]:
    """Quantises each row by its largest element. After Ascend's API reference of
    torch_npu, page npu_dynamic_quant.

    input          (..., n) float
    smooth_scales  (n,), or (groups, n) with `group_index`: multiplied first
    group_index    the end of each group's rows
    dst_type       int8 or None, or quint4x2 for int4, for which 8 divides n

    Returns int8 of the input's shape, or int32 (..., n / 8) with eight int4 each; and
    the f32 scale of each row: its largest element over 127, or over 7 of int4.
    RuntimeError: another shape or dtype.
    """
    name = "npu_dynamic_quant"
    known = dst_type in (None, torch.int8, torch.quint4x2)
    check(known, name, f"dst_type must be int8 or quint4x2, got {dst_type}")
    if dst_type != torch.quint4x2:
        return smoothed_rows(input, smooth_scales, group_index, name)
    _check_eighths(input, name)
    made, scale = smoothed_rows(input, smooth_scales, group_index, name, largest=7)
    return pack_int4(made), scale


def _check_eighths(input: Tensor, name: str) -> None:
    """RuntimeError unless 8 divides the last dimension, as int4 in int32 needs."""
    size = input.shape[-1] if input.dim() else 1
    check(size % 8 == 0, name, f"int4 needs rows of a multiple of 8, got {size}")


def smoothed_rows(
    input: Tensor,
    smooth_scales: Tensor | None,
    group_index: Tensor | None,
    name: str,
    what: str = "smooth_scales",
    largest: int = 127,
) -> tuple[Tensor, Tensor]:
    """row_scale of the input times the smooth scales of each row's group."""
    check_dtype(input, name, "input")
    check(
        input.dim() > 0 and input.shape[-1] > 0,
        name,
        f"input must have rows with elements, got {tuple(input.shape)}",
    )
    values = input.to(torch.float32)
    check(
        group_index is None or smooth_scales is not None,
        name,
        "group_index needs smooth_scales",
    )
    check_dtype(group_index, name, "group_index", (torch.int32, torch.int64))
    if smooth_scales is not None:
        width = input.shape[-1]
        known = (width,) if group_index is None else (group_index.numel(), width)
        check_dtype(smooth_scales, name, what)
        check_shape(smooth_scales, name, what, known)
        groups = None
        if group_index is not None:
            groups = group_of_rows(group_index, input.numel() // input.shape[-1])
            values = values.reshape(-1, input.shape[-1])
        values = values * of_group(smooth_scales, groups)
    quantised, scale = row_scale(values.reshape(input.shape), largest)
    return quantised, scale


# The dtype that stores a quantised result, and its limits.
_STORED = {
    torch.quint8: (torch.uint8, 0, 255),
    torch.uint8: (torch.uint8, 0, 255),
    torch.qint8: (torch.int8, -128, 127),
    torch.int8: (torch.int8, -128, 127),
    torch.qint32: (torch.int32, -(2**31), 2**31 - 1),
    torch.int32: (torch.int32, -(2**31), 2**31 - 1),
    torch.quint4x2: (torch.int8, -8, 7),
}


@npu_operator
def npu_quantize(
    input: Tensor,
    scales: Tensor,
    zero_points: Tensor | None,
    dtype: torch.dtype,
    axis: int = 1,
    div_mode: bool = True,
) -> Tensor:
    """input / scales + zero_points, or input * scales without `div_mode`, rounded half
    to even and clamped to the range of `dtype`. After Ascend's API reference of
    torch_npu, page npu_quantize.

    scales, zero_points  one element, or one for each index of `axis`; without `div_mode`
                         also with the rank of the input
    dtype                quint8, qint8 or qint32; without `div_mode` also quint4x2: int32
                         (..., n / 8) with eight int4 each
    axis                 without `div_mode`: -2, or else the last

    RuntimeError: another shape or dtype.
    """
    name, packed = "npu_quantize", dtype == torch.quint4x2
    if not div_mode and axis != -2:
        axis = -1
    if packed:
        check(not div_mode, name, "quint4x2 needs div_mode False")
        _check_eighths(input, name)
    made = quantise_by(input, scales, zero_points, dtype, axis, div_mode, name)
    return pack_int4(made) if packed else made


def quantise_by(
    input: Tensor,
    scales: Tensor,
    zero_points: Tensor | None,
    dtype: torch.dtype,
    axis: int,
    div_mode: bool,
    name: str,
    which: str = "",
) -> Tensor:
    text = f"dtype must be quint8, qint8, qint32 or quint4x2, got {dtype}"
    check(dtype in _STORED, name, text)
    check(
        -input.dim() <= axis < input.dim(),
        name,
        f"the input has {input.dim()} dimensions, there is no axis {axis}",
    )
    check_dtype(input, name, "input")
    kind, lowest, highest = _STORED[dtype]
    # An f32 cannot hold the limits of int32.
    wide = torch.float64 if kind == torch.int32 else torch.float32
    deep = not div_mode
    factor = _along(scales, input, axis, f"scales{which}", name, deep)
    factor = factor.to(torch.float32)
    values = input.to(torch.float32)
    values = (values / factor if div_mode else values * factor).to(wide)
    if zero_points is not None:
        points = _along(zero_points, input, axis, f"zero_points{which}", name, deep)
        values = values + points.to(wide)
    return values.round().clamp(lowest, highest).to(kind)


def _along(
    vector: Tensor, input: Tensor, axis: int, what: str, name: str, deep: bool
) -> Tensor:
    """The vector, reshaped to broadcast along the axis. If `deep`, it may have that
    shape already."""
    size = input.shape[axis]
    shape = [1] * input.dim()
    shape[axis] = size
    ready = deep and list(vector.shape) in (shape, [1] * input.dim())
    check(
        (vector.dim() <= 1 or ready) and vector.numel() in (1, size),
        name,
        f"{what} must have 1 or {size} elements, got {tuple(vector.shape)}",
    )
    return vector.reshape(()) if vector.numel() == 1 else vector.reshape(shape)
