"""npu_anti_quant, which undoes a quantisation, and npu_quant_max.

After Ascend's API reference of torch_npu, page npu_anti_quant, and of its kernels, page
aclnnQuantMax."""

from __future__ import annotations

import torch
from torch import Tensor

from ..checks import FLOATS, INTEGERS, check, check_dtype, check_shape
from ..definition import npu_operator
from ..element_types import element_type, scalar_type
from .integers import unpack_int4
from .rows import group_of_rows
from .stored import stored


@npu_operator
def npu_anti_quant(
    x: Tensor,
    scale: Tensor,
    *,
    offset: Tensor | None = None,
    dst_dtype: int | None = None,
    src_dtype: int | None = None,
) -> Tensor:
    """(x + offset) * scale, computed in f32.

    x              int8 (..., n), or int32 (..., n / 8) with eight int4 each
    scale, offset  (n,) or (1,), float32 or bfloat16
    dst_dtype      float16 (None) or bfloat16 of the result
    src_dtype      int8, or quint4x2 for int32; None: what x has

    RuntimeError: another shape or dtype.
    """
    name = "npu_anti_quant"
    results = (torch.float16, torch.bfloat16)
    known = dst_dtype is None or dst_dtype >= 0
    text = (
        f"Input dst_type must be valid, but got UNKNOWN_SCALAR: dst_dtype {dst_dtype}"
    )
    check(known, name, text)
    kind = scalar_type(dst_dtype, name, "dst_dtype", results) or torch.float16
    check_dtype(x, name, "x", (torch.int8, torch.int32))
    source = torch.int8 if x.dtype == torch.int8 else torch.quint4x2
    scalar_type(src_dtype, name, "src_dtype", (source,))
    wide = unpack_int4(x) if x.dtype == torch.int32 else x
    check_dtype(scale, name, "scale", (torch.float32, torch.bfloat16))
    check_shape(scale, name, "scale", (wide.shape[-1],), (1,))
    check_dtype(offset, name, "offset", (scale.dtype,))
    check_shape(offset, name, "offset", tuple(scale.shape))
    values = wide.to(torch.float32)
    if offset is not None:
        values = values + offset.to(torch.float32)
    return (values * scale.to(torch.float32)).to(kind)


@npu_operator
def npu_quant_max(
    x: Tensor,
    scale: Tensor,
    *,
    round_mode: str = "rint",
    dst_dtype: int = 291,
    group_list: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """x / scale, rounded to `dst_dtype`, and the largest magnitude of x.

    x           a float tensor
    scale       f32 (groups,); (1,) without groups
    group_list  (groups,): the end of each group along the first dimension
    dst_dtype   float8_e5m2, float8_e4m3fn, or hifloat8 in uint8
    round_mode  rint; round for hifloat8

    Returns the elements, and the magnitude of each group in x's dtype; that of an empty
    group is 0. What is of no group becomes 0. RuntimeError: another shape, dtype or
    option.
    """
    name = "npu_quant_max"
    check_dtype(x, name, "x", FLOATS)
    known = ("float8_e5m2", "float8_e4m3fn", "hifloat8")
    element = element_type(dst_dtype, name, "dst_dtype", known)
    needed = "round" if element.name == "hifloat8" else "rint"
    text = f"round_mode must be {needed!r} for {element.name}, got {round_mode!r}"
    check(round_mode == needed, name, text)
    check_dtype(scale, name, "scale", (torch.float32,))
    count = 1 if group_list is None else group_list.numel()
    check_shape(scale, name, "scale", (count,))
    wide = x.to(torch.float32)
    if group_list is None:
        return stored(wide / scale, element), x.abs().amax().reshape(1)
    check_dtype(group_list, name, "group_list", INTEGERS)
    check_shape(group_list, name, "group_list", (count,))
    groups = group_of_rows(group_list, x.shape[0])
    tops = x.abs().flatten(1).amax(1) if x.dim() > 1 else x.abs()
    largest = tops.new_zeros(count + 1).scatter_reduce(0, groups, tops, "amax")
    inside = (groups < count).reshape(-1, *(1,) * (x.dim() - 1))
    divisor = scale[groups.clamp(max=count - 1)].reshape(inside.shape)
    values = torch.where(inside, wide / divisor, 0.0)
    return stored(values, element), largest[:count]
