"""Quantisations after other work: a gate, a GELU, a rotation.

After Ascend's API reference of torch_npu, pages npu_swiglu_quant and npu_rotate_quant, and
of its kernels, pages aclnnSwiGluQuantV2 and aclnnGeluQuant."""

from __future__ import annotations

import torch
from torch import Tensor

from ..activations.gelu import gelu_of
from ..activations.swiglu import swiglu
from ..checks import check, check_dtype, check_shape
from ..definition import npu_operator
from ..element_types import element_type
from .blocks import MX_TYPES, mx_blocks
from .integers import to_int8
from .rows import group_of_rows, of_group, row_scale, unit_for_zero
from .stored import ROW_TYPES, largest_of, stored

_FOR_GELU = tuple(kind for kind in ROW_TYPES if kind != "quint4x2")


@npu_operator
def npu_swiglu_quant(
    x: Tensor,
    *,
    smooth_scales: Tensor | None = None,
    offsets: Tensor | None = None,
    group_index: Tensor | None = None,
    activate_left: bool = False,
    quant_mode: int = 0,
    group_list_type: int = 0,
    dst_type: torch.dtype | None = None,
) -> tuple[Tensor, Tensor]:
    """silu of one half of each row times the other, times the smooth scales of the row's
    group, quantised to int8. Computed in f32.

    x                  (..., 2 n) float
    smooth_scales      (groups, n) or (groups,); without groups also (n,)
    offsets            the shape of smooth_scales; added with quant_mode 0 only
    group_index        (groups,): the end of each group's rows, or with group_list_type 1
                       their number
    quant_mode         0 rounds; 1 multiplies by 127 over the row's largest magnitude
    dst_type           int8

    Returns int8 (..., n), and f32 (...): the factors of quant_mode 1, else zeros. Rows of
    no group are 0. RuntimeError: another shape, dtype or option.
    """
    name = "npu_swiglu_quant"
    check_dtype(x, name, "x")
    fits = x.dim() > 1 and x.shape[-1] % 2 == 0
    check(fits, name, f"x must have rows of an even size, got {tuple(x.shape)}")
    known = dst_type in (None, torch.int8)
    check(known, name, f"dst_type must be int8, got {dst_type}")
    for what, mode in (
        ("quant_mode", quant_mode),
        ("group_list_type", group_list_type),
    ):
        check(mode in (0, 1), name, f"{what} must be 0 or 1, got {mode}")
    width = x.shape[-1] // 2
    _check_tables(name, width, smooth_scales, offsets, group_index)
    rows = swiglu(x.to(torch.float32), activate_left).reshape(-1, width)
    groups, inside = None, None
    if group_index is not None:
        ends = group_index.cumsum(0) if group_list_type == 1 else group_index
        groups = group_of_rows(ends, rows.shape[0])
        inside = groups < group_index.shape[0]
    if smooth_scales is not None:
        rows = rows * of_group(smooth_scales, groups)
    if quant_mode == 1:
        made, scale = row_scale(rows)
        scale = 1 / scale
    else:
        rows = rows if offsets is None else rows + of_group(offsets, groups)
        made, scale = to_int8(rows), rows.new_zeros(rows.shape[0])
    if inside is not None:
        made = torch.where(inside.unsqueeze(-1), made, torch.zeros_like(made))
        scale = torch.where(inside, scale, torch.zeros_like(scale))
    return made.reshape(*x.shape[:-1], width), scale.reshape(x.shape[:-1])


def _check_tables(
    name: str,
    width: int,
    smooth_scales: Tensor | None,
    offsets: Tensor | None,
    group_index: Tensor | None,
) -> None:
    check_dtype(group_index, name, "group_index", (torch.int32, torch.int64))
    flat = group_index is None or group_index.dim() == 1
    check(flat, name, "group_index must have one dimension")
    count = 1 if group_index is None else group_index.shape[0]
    one = [(width,)] if group_index is None else []
    for what, table in (("smooth_scales", smooth_scales), ("offsets", offsets)):
        check_dtype(table, name, what, (torch.float32,))
        check_shape(table, name, what, (count, width), (count,), *one)


@npu_operator
def npu_gelu_quant(
    self: Tensor,
    *,
    input_scale: Tensor | None = None,
    input_offset: Tensor | None = None,
    approximate: str = "none",
    quant_mode: str = "dynamic",
    dst_type: int | None = None,
    round_mode: str = "rint",
) -> tuple[Tensor, Tensor | None]:
    """GELU, computed in f32, and quantised.

    input_scale   (n,) or (1,): multiplied before rounding
    input_offset  added after that for quant_mode static only
    quant_mode    static rounds; dynamic divides each row by its largest magnitude over the
                  largest number of the type first
    dst_type      int8 (None), float8_e4m3fn, float8_e5m2, or hifloat8 in uint8
    round_mode    rint; round for hifloat8

    Returns the elements, and the f32 scale of each row; None for static. RuntimeError:
    another shape, dtype or option.
    """
    name = "npu_gelu_quant"
    check_dtype(self, name, "self")
    known = quant_mode in ("static", "dynamic")
    check(known, name, f"quant_mode must be static or dynamic, got {quant_mode!r}")
    number = 1 if dst_type is None else dst_type
    element = element_type(number, name, "dst_type", _FOR_GELU)
    needed = "round" if element.name == "hifloat8" else "rint"
    text = f"round_mode must be {needed!r} for {element.name}, got {round_mode!r}"
    check(round_mode == needed, name, text)
    for what, table in (("input_scale", input_scale), ("input_offset", input_offset)):
        check_dtype(table, name, what)
        check_shape(table, name, what, (self.shape[-1],), (1,))
    is_static = quant_mode == "static"
    values = gelu_of(self.to(torch.float32), approximate, name)
    if input_scale is not None:
        values = values * input_scale.to(torch.float32)
    if not is_static:
        scale = unit_for_zero(values.abs().amax(-1) / largest_of(element))
        return stored(values / scale.unsqueeze(-1), element), scale
    check(
        input_scale is not None, name, "input_scale is needed for quant_mode 'static'"
    )
    if input_offset is not None:
        values = values + input_offset.to(torch.float32)
    return stored(values, element), None


@npu_operator
def npu_rotate_quant(
    x: Tensor,
    rotation: Tensor,
    *,
    alpha: Tensor | None = None,
    dst_dtype: int | None = None,
    axis: int | None = -1,
    round_mode: str | None = "rint",
    scale_alg: int | None = 0,
    dst_type_max: float | None = 0.0,
    transpose_y: bool | None = False,
) -> tuple[Tensor, Tensor]:
    """Multiplies parts of k of each row by a matrix, rounds to x's dtype, and quantises.

    x          float16 or bfloat16 (..., n); k divides n
    rotation   (k, k), or one for each part (n / k, k, k), in x's dtype
    alpha      of MX types: (1,), which limits each 32 elements to alpha times their
               largest magnitude, if it is between 0 and 1
    dst_dtype  int8 (None) or quint4x2, as npu_dynamic_quant; or float4_e2m1fn_x2,
               float8_e5m2 or float8_e4m3fn, as npu_dynamic_mx_quant

    round_mode, scale_alg and dst_type_max are of MX types. Returns the elements and the
    scales. RuntimeError: another shape, dtype or option.
    """
    name = "npu_rotate_quant"
    check_dtype(x, name, "x", (torch.float16, torch.bfloat16))
    check(not transpose_y, name, f"transpose_y must be False, got {transpose_y}")
    check(axis in (-1, x.dim() - 1), name, f"axis must be -1, got {axis}")
    known = ("int8", "quint4x2", *(kind for kind in MX_TYPES if "e1m2" not in kind))
    number = 1 if dst_dtype is None else dst_dtype
    element = element_type(number, name, "dst_dtype", known)
    rounding, algorithm, largest = round_mode or "rint", scale_alg, dst_type_max or 0.0
    rotated = _rotated(x, rotation, name)
    if element.name in MX_TYPES:
        blocks = mx_blocks(name, number, rounding, algorithm=algorithm, largest=largest)
        even = not blocks.element.is_packed or x.shape[-1] % 2 == 0
        check(even, name, f"the last dimension of x must be even, got {x.shape[-1]}")
        return blocks.quantise(_limited(rotated, alpha, name))
    for what, value, default in (
        ("alpha", alpha, None),
        ("round_mode", rounding, "rint"),
        ("scale_alg", scale_alg or 0, 0),
        ("dst_type_max", largest, 0.0),
    ):
        text = f"{what} must be {default!r} for {element.name}"
        check(value is None or value == default, name, text)
    rows = rotated.to(torch.float32)
    scale = unit_for_zero(rows.abs().amax(-1) / largest_of(element))
    return stored(rows / scale.unsqueeze(-1), element), scale


def _rotated(x: Tensor, rotation: Tensor, name: str) -> Tensor:
    check_dtype(rotation, name, "rotation", (x.dtype,))
    size, width = rotation.shape[-1], x.shape[-1]
    check(width % size == 0, name, f"rotation of {size} must divide rows of {width}")
    known = (size, size), (width // size, size, size)
    check_shape(rotation, name, "rotation", *known)
    parts = x.unflatten(-1, (-1, 1, size)).to(torch.float32)
    made = torch.matmul(parts, rotation.to(torch.float32))
    return made.flatten(-3).to(x.dtype)


def _limited(rows: Tensor, alpha: Tensor | None, name: str) -> Tensor:
    if alpha is None:
        return rows
    check_shape(alpha, name, "alpha", (1,))
    width = rows.shape[-1]
    check(width % 32 == 0, name, f"alpha needs rows of a multiple of 32, got {width}")
    parts = rows.unflatten(-1, (-1, 32))
    limit = alpha.to(parts.dtype) * parts.abs().amax(-1, keepdim=True)
    limited = torch.minimum(torch.maximum(parts, -limit), limit)
    acts = (alpha > 0) & (alpha < 1)
    return torch.where(acts, limited, parts).flatten(-2)
