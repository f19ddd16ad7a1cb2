"""Operators of torch_npu that quantise activations, and gates before that."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from .library import (
    FLOATS,
    check,
    check_dtype,
    check_shape,
    operator,
    pack_int4,
    to_int8,
)


def row_scale(values: Tensor, largest: int = 127) -> tuple[Tensor, Tensor]:
    """int8 rows, none beyond `largest`, and the f32 scale of each. Rows of zeros have
    scale 1."""
    scale = values.abs().amax(-1) / largest
    scale = torch.where(scale == 0, torch.ones_like(scale), scale)
    made = (values / scale.unsqueeze(-1)).round()
    return made.clamp(-largest - 1, largest).to(torch.int8), scale


def _group_of_rows(ends: Tensor, rows: int) -> Tensor:
    """The group of each row, from the end of each group's rows. Rows beyond get the
    number of groups."""
    numbers = torch.arange(rows, device=ends.device)
    return (numbers.unsqueeze(-1) >= ends).sum(-1)


@operator(
    "(Tensor x, *, Tensor? weight_scale=None, Tensor? activation_scale=None,"
    " Tensor? bias=None, Tensor? quant_scale=None, Tensor? quant_offset=None,"
    " Tensor? group_index=None, bool activate_left=False, int quant_mode=0,"
    " int? dst_type=None, int? round_mode=None, int? activate_dim=None,"
    " int swiglu_mode=0, float clamp_limit=7.0, float glu_alpha=1.702,"
    " float glu_bias=1.0) -> (Tensor, Tensor)"
)
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

    Returns int8 (T, H) and f32 (T,). RuntimeError: another shape, dtype or mode.
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
    for what, value, known in (
        ("dst_type", dst_type, _INT8_CODES),
        ("round_mode", round_mode, (None, 0)),
        ("activate_dim", activate_dim, (None, -1, x.dim() - 1)),
    ):
        check(value in known, name, f"{what} must be one of {known}, got {value}")
    rows = x.reshape(-1, x.shape[-1])
    _check_tables(rows, weight_scale, quant_scale, quant_offset, group_index)
    groups = None
    if group_index is not None:
        check(bias is None, name, "bias must be None when there are groups")
        groups = _group_of_rows(group_index.cumsum(0), rows.shape[0])
    values = _dequantise(rows, weight_scale, activation_scale, bias, groups)
    if swiglu_mode == 0:
        gated = _swiglu(values, activate_left)
    else:
        halves = _interleaved(values) if swiglu_mode == 1 else _halves(values)
        if swiglu_mode == 2 and not activate_left:
            halves = halves[::-1]
        gated = _clamped_glu(*halves, clamp_limit, glu_alpha, glu_bias)
    if quant_mode == 1:
        if quant_scale is not None:
            gated = gated * _of_group(quant_scale, groups)
        quantised, scale = row_scale(gated)
    else:
        if quant_scale is not None:
            gated = gated / _of_group(quant_scale, groups)
        if quant_offset is not None:
            gated = gated + _of_group(quant_offset, groups)
        quantised = to_int8(gated)
        scale = gated.new_zeros(rows.shape[0])
    if groups is None or group_index is None:
        return quantised, scale
    inside = groups < group_index.shape[0]
    quantised = torch.where(
        inside.unsqueeze(-1), quantised, torch.zeros_like(quantised)
    )
    return quantised, torch.where(inside, scale, torch.zeros_like(scale))


# int8, by PyTorch's number of the dtype; it is also the default.
_INT8_CODES = (None, 1)


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
        one = [(width,)] if count == 1 else []
        check_shape(weight_scale, name, "weight_scale", (count, width), *one)
    for what, table in (("quant_scale", quant_scale), ("quant_offset", quant_offset)):
        check_dtype(table, name, what)
        one = [(width // 2,)] if count == 1 else []
        check_shape(table, name, what, (count, width // 2), (count, 1), (count,), *one)


def _of_group(values: Tensor, groups: Tensor | None) -> Tensor:
    """The table's row for the group of each row, in f32: (T, n) or (T, 1). Without
    groups: a tensor that broadcasts to it."""
    values = values.to(torch.float32)
    if groups is None:
        return values
    table = values.unsqueeze(-1) if values.dim() == 1 else values
    return table[groups.clamp(max=table.shape[0] - 1)]


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
    table = weight_scale.reshape(-1, weight_scale.shape[-1])
    values = x.to(torch.float32) * _of_group(table, groups)
    if activation_scale is not None:
        values = values * activation_scale.to(torch.float32).reshape(-1, 1)
    if bias is not None and bias.dtype != torch.int32:
        values = values + bias.to(torch.float32)
    return values


def _halves(values: Tensor) -> tuple[Tensor, Tensor]:
    left, right = values.chunk(2, -1)
    return left, right


def _interleaved(values: Tensor) -> tuple[Tensor, Tensor]:
    return values[..., 0::2], values[..., 1::2]


def _swiglu(values: Tensor, activate_left: bool) -> Tensor:
    left, right = _halves(values)
    if activate_left:
        return functional.silu(left) * right
    return functional.silu(right) * left


def _clamped_glu(
    gate: Tensor, linear: Tensor, limit: float, alpha: float, bias: float
) -> Tensor:
    gate = gate.clamp(max=limit)
    linear = linear.clamp(-limit, limit)
    return gate * torch.sigmoid(alpha * gate) * (linear + bias)


@operator("(Tensor input, int dim=-1) -> Tensor")
def npu_swiglu(input: Tensor, dim: int = -1) -> Tensor:
    """silu of the first half along `dim`, times the second half, computed in f32. The
    result has the input's dtype. RuntimeError: an odd size, or another dtype."""
    name = "npu_swiglu"
    check_dtype(input, name, "input")
    check(
        -input.dim() <= dim < input.dim(),
        name,
        f"input has {input.dim()} dimensions, dim must be one of them, got {dim}",
    )
    size = input.shape[dim]
    check(size % 2 == 0, name, f"dimension {dim} of input must be even, got {size}")
    left, right = input.to(torch.float32).chunk(2, dim)
    return (functional.silu(left) * right).to(input.dtype)


@operator(
    "(Tensor input, *, Tensor? smooth_scales=None, Tensor? group_index=None,"
    " ScalarType? dst_type=None, str quant_mode='pertoken', float dst_type_max=0.0)"
    " -> (Tensor, Tensor)",
    reserved=("quant_mode", "dst_type_max"),
)
def npu_dynamic_quant(
    input: Tensor,
    *,
    smooth_scales: Tensor | None = None,
    group_index: Tensor | None = None,
    dst_type: torch.dtype | None = None,
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
            groups = _group_of_rows(group_index, input.numel() // input.shape[-1])
            values = values.reshape(-1, input.shape[-1])
        values = values * _of_group(smooth_scales, groups)
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


@operator(
    "(Tensor input, Tensor scales, Tensor? zero_points, ScalarType dtype,"
    " int axis=1, bool div_mode=True) -> Tensor"
)
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
