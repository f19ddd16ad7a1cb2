"""Operators of torch_npu that quantise activations, and gates before that."""

from __future__ import annotations

import torch
from torch import Tensor

from ..checks import check, check_dtype, check_shape
from ..definition import npu_operator
from ..element_types import ElementType, element_type
from .integers import pack_int4
from .rows import group_of_rows, of_group, unit_for_zero
from .stored import ROW_TYPES, check_eighths, largest_of, stored

# What one scale of a dynamic quantisation is for: by the names of quant_mode.
_MODES = ("pertoken", "perchannel", "pertensor")


@npu_operator
def npu_dynamic_quant(
    input: Tensor,
    *,
    smooth_scales: Tensor | None = None,
    group_index: Tensor | None = None,
    dst_type: int | None = None,
    quant_mode: str = "pertoken",
    dst_type_max: float = 0.0,
) -> tuple[Tensor, Tensor]:
    """Quantises each row by its largest element. After Ascend's API reference of
    torch_npu, page npu_dynamic_quant.

    input          (..., n) float
    smooth_scales  (n,), or (groups, n) with `group_index`: multiplied first
    group_index    the end of each group's rows
    dst_type       int8 (None), quint4x2 for int4, for which 8 divides n, float8_e4m3fn,
                   float8_e5m2, or hifloat8 in uint8
    quant_mode     pertoken; perchannel for a scale of each index of the last dimension
                   (smooth_scales are of the last but one); pertensor for one scale
    dst_type_max   of hifloat8: counts as its largest number, unless 0

    Returns elements of the input's shape, or int32 (..., n / 8) with eight int4 each; and
    the f32 scale of each row: its largest element over the largest number of the type.
    RuntimeError: another shape, dtype or option.
    """
    name = "npu_dynamic_quant"
    number = 1 if dst_type is None else dst_type
    element = element_type(number, name, "dst_type", ROW_TYPES)
    largest = _largest(element, dst_type_max, name)
    lines = _lines(input, smooth_scales, group_index, quant_mode, name)
    scale = unit_for_zero(lines.abs().amax(-1) / largest)
    return _along_lines(input, lines / scale.unsqueeze(-1), quant_mode, element), scale


@npu_operator
def npu_dynamic_quant_asymmetric(
    input: Tensor,
    *,
    smooth_scales: Tensor | None = None,
    group_index: Tensor | None = None,
    dst_type: int | None = None,
    quant_mode: str = "pertoken",
    dst_type_max: float = 0.0,
) -> tuple[Tensor, Tensor, Tensor]:
    """npu_dynamic_quant by an offset too, so that the smallest and the largest element of
    a row become those of int8, or of int4 (quint4x2).

    scale   (largest element - smallest) / (127 + 128), or / (7 + 8); 1 for equal elements
    offset  127 - largest element / scale, or 7 - ...

    Returns round(input / scale + offset), scale and offset, both f32. `dst_type_max` must
    be 0. RuntimeError: another shape, dtype or option.
    """
    name = "npu_dynamic_quant_asymmetric"
    number = 1 if dst_type is None else dst_type
    element = element_type(number, name, "dst_type", ("int8", "quint4x2"))
    most = _largest(element, dst_type_max, name)
    lines = _lines(input, smooth_scales, group_index, quant_mode, name)
    top = lines.amax(-1)
    scale = unit_for_zero((top - lines.amin(-1)) * (1 / (2 * most + 1)))
    offset = most - top / scale
    made = lines / scale.unsqueeze(-1) + offset.unsqueeze(-1)
    return _along_lines(input, made, quant_mode, element), scale, offset


def _largest(element: ElementType, stated: float, name: str) -> float:
    fits = stated == 0 or (element.name == "hifloat8" and stated > 0)
    check(fits, name, f"dst_type_max must be 0 unless for hifloat8, got {stated}")
    return stated or largest_of(element)


def _lines(
    input: Tensor,
    smooth_scales: Tensor | None,
    group_index: Tensor | None,
    mode: str,
    name: str,
) -> Tensor:
    """The smoothed elements in f32. A scale is for all of a last dimension."""
    check(mode in _MODES, name, f"quant_mode must be one of {_MODES}, got {mode!r}")
    if mode == "perchannel":
        check(input.dim() > 1, name, "quant_mode 'perchannel' needs two dimensions")
        check(
            group_index is None, name, "group_index must be None unless for 'pertoken'"
        )
        return smoothed(input.mT, smooth_scales, None, name)
    values = smoothed(input, smooth_scales, group_index, name)
    return values.reshape(1, -1) if mode == "pertensor" else values


def _along_lines(
    input: Tensor, lines: Tensor, mode: str, element: ElementType
) -> Tensor:
    made = lines.mT if mode == "perchannel" else lines.reshape(input.shape)
    return stored(made, element)


def smoothed_rows(
    input: Tensor,
    smooth_scales: Tensor | None,
    element: ElementType,
    name: str,
    what: str,
) -> tuple[Tensor, Tensor]:
    """The input times the smooth scales, as the type has it, and the scale of each row."""
    values = smoothed(input, smooth_scales, None, name, what)
    scale = unit_for_zero(values.abs().amax(-1) / largest_of(element))
    return stored(values / scale.unsqueeze(-1), element), scale


def smoothed(
    input: Tensor,
    smooth_scales: Tensor | None,
    group_index: Tensor | None,
    name: str,
    what: str = "smooth_scales",
) -> Tensor:
    """The input in f32, times the smooth scales of each row's group."""
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
    if smooth_scales is None:
        return values
    width = input.shape[-1]
    known = (width,) if group_index is None else (group_index.numel(), width)
    check_dtype(smooth_scales, name, what)
    check_shape(smooth_scales, name, what, known)
    groups = None
    if group_index is not None:
        groups = group_of_rows(group_index, input.numel() // input.shape[-1])
        values = values.reshape(-1, input.shape[-1])
    return (values * of_group(smooth_scales, groups)).reshape(input.shape)


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
        check_eighths(input.shape[-1] if input.dim() else 1)
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
