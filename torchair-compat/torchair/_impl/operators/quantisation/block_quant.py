"""Operators that quantise blocks or rows by a float scale, after other work on them.

After Ascend's API reference of torch_npu, page npu_dynamic_block_quant, and of its
kernels, pages aclnnDynamicBlockQuantV2 and aclnnFlatQuantV2."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from ..checks import check, check_dtype, check_shape
from ..definition import npu_operator
from ..element_types import ElementType, element_type
from .blocks import mx_blocks
from .integers import pack_int4
from .rows import unit_for_zero
from .stored import largest_of, stored

_HIFLOAT8_LARGEST = (15.0, 56.0, 224.0, 32768.0)


@npu_operator
def npu_dynamic_block_quant(
    x: Tensor,
    *,
    min_scale: float = 0.0,
    round_mode: str = "rint",
    dst_type: int = 1,
    row_block_size: int = 1,
    col_block_size: int = 128,
    dst_type_max: float = 0.0,
) -> tuple[Tensor, Tensor]:
    """Quantises each block of rows and columns by its largest magnitude over the type's
    largest number, at most 1 / min_scale.

    x               a float tensor (m, n) or (b, m, n)
    dst_type        int8, float8_e4m3fn, float8_e5m2, or hifloat8 in uint8
    round_mode      rint; round for hifloat8
    row_block_size  1, 128, 256 or 512
    col_block_size  64, 128, 192 or 256
    dst_type_max    for hifloat8: 15, 56, 224 or 32768 in the place of its largest number

    Returns the elements and the f32 scales, one for each block. A block of zeros has scale
    0. RuntimeError: another shape, dtype or option.
    """
    name = "npu_dynamic_block_quant"
    check_dtype(x, name, "x")
    check(x.dim() in (2, 3), name, f"x must have 2 or 3 dimensions, got {x.dim()}")
    known = ("int8", "float8_e4m3fn", "float8_e5m2", "hifloat8")
    element = element_type(dst_type, name, "dst_type", known)
    sizes = (row_block_size, col_block_size)
    check_block_options(element, round_mode, min_scale, sizes, dst_type_max, name)
    m, n = x.shape[-2:]
    filled = functional.pad(
        x.to(torch.float32), (0, -n % col_block_size, 0, -m % row_block_size)
    )
    blocks = filled.unflatten(-1, (-1, col_block_size))
    blocks = blocks.unflatten(-3, (-1, row_block_size))
    top = blocks.abs().amax((-1, -3))
    scale = largest_of_blocks(top, element, min_scale, dst_type_max)
    divisor = unit_for_zero(scale).unsqueeze(-2).unsqueeze(-1)
    values = (blocks / divisor).flatten(-2).flatten(-3, -2)
    return stored(values[..., :m, :n], element), scale


def check_block_options(
    element: ElementType,
    rounding: str,
    min_scale: float,
    sizes: tuple[int, int],
    largest: float,
    name: str,
) -> None:
    """RuntimeError, with the operator: an option that blocks do not have."""
    check(min_scale >= 0, name, f"min_scale must not be negative, got {min_scale}")
    needed = "round" if element.name == "hifloat8" else "rint"
    text = f"round_mode must be {needed!r} for {element.name}, got {rounding!r}"
    check(rounding == needed, name, text)
    for what, size, known in (
        ("row_block_size", sizes[0], (1, 128, 256, 512)),
        ("col_block_size", sizes[1], (64, 128, 192, 256)),
    ):
        check(size in known, name, f"{what} must be one of {known}, got {size}")
    fits = largest == 0 or (element.name == "hifloat8" and largest in _HIFLOAT8_LARGEST)
    text = f"dst_type_max must be 0, or one of {_HIFLOAT8_LARGEST} for hifloat8"
    check(fits, name, f"{text}, got {largest}")


def largest_of_blocks(
    top: Tensor, element: ElementType, min_scale: float, largest: float
) -> Tensor:
    """The scales of blocks, from the largest magnitude of each."""
    scale = top / (largest or largest_of(element))
    return scale.clamp(max=1 / min_scale) if min_scale > 0 else scale


@npu_operator
def npu_kronecker_quant(
    x: Tensor,
    kronecker_p1: Tensor,
    kronecker_p2: Tensor,
    clip_ratio: float | None = None,
    dst_dtype: int | None = None,
    dst_type_max: float | None = None,
) -> tuple[Tensor, Tensor]:
    """kronecker_p1 @ (x @ kronecker_p2), each product rounded to x's dtype, quantised.

    x             float16 or bfloat16 (m, n1, n2)
    kronecker_p1  (n1, n1), and kronecker_p2 (n2, n2), in x's dtype
    dst_dtype     int32 or quint4x2 (None): int4 by one scale for each m, its largest
                  magnitude over 7 * clip_ratio. Or float4_e2m1fn_x2, in MX blocks of 32 of
                  n1 * n2
    clip_ratio    above 0, up to 1 (None: 1); 1 for float4_e2m1fn_x2
    dst_type_max  for float4_e2m1fn_x2: from 6 to 12, as scale_alg 2 of
                  npu_dynamic_mx_quant; 0 (None) as scale_alg 0

    Returns int32 (m, n1, n2 / 8) with eight int4 each and f32 (m,), or bytes (m, n1 * n2 /
    2) with two elements each and the scales. RuntimeError: another shape, dtype or option.
    """
    name = "npu_kronecker_quant"
    check_dtype(x, name, "x", (torch.float16, torch.bfloat16))
    check(x.dim() == 3, name, f"x must have 3 dimensions, got {x.dim()}")
    _, n1, n2 = x.shape
    for what, table, size in (
        ("kronecker_p1", kronecker_p1, n1),
        ("kronecker_p2", kronecker_p2, n2),
    ):
        check_dtype(table, name, what, (x.dtype,))
        check_shape(table, name, what, (size, size))
    ratio = 1.0 if clip_ratio is None else clip_ratio
    check(0 < ratio <= 1, name, f"clip_ratio must be above 0, up to 1, got {ratio}")
    largest = dst_type_max or 0.0
    known = ("int32", "quint4x2", "float4_e2m1fn_x2")
    number = 3 if dst_dtype is None else dst_dtype
    element = element_type(number, name, "dst_dtype", known)
    made = torch.matmul(kronecker_p1, torch.matmul(x, kronecker_p2))
    if element.name == "float4_e2m1fn_x2":
        check(n2 % 2 == 0, name, f"the last dimension of x must be even, got {n2}")
        check(ratio == 1, name, f"clip_ratio must be 1 for {element.name}, got {ratio}")
        algorithm = 2 if largest else 0
        blocks = mx_blocks(name, number, "rint", algorithm=algorithm, largest=largest)
        return blocks.quantise(made.flatten(1))
    check(largest == 0, name, f"dst_type_max must be 0 for int4, got {largest}")
    check(n2 % 8 == 0, name, f"int4 needs rows of a multiple of 8, got {n2}")
    values = made.to(torch.float32)
    scale = values.abs().amax((-2, -1)) / (7 * ratio)
    divisor = torch.where(scale == 0, torch.ones_like(scale), scale)
    rounded = (values / divisor.reshape(-1, 1, 1)).round().clamp(-8, 7)
    return pack_int4(rounded.to(torch.int8)), scale
