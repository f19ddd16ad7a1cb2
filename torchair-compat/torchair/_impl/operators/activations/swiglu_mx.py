"""A gate, and MX blocks of what it makes, along rows, columns or both.

After the reference of Ascend's kernels, page aclnnSwigluMxQuant."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from ..checks import check, check_dtype
from ..definition import npu_operator
from ..quantisation.blocks import mx_blocks
from ..quantisation.grouped_blocks import check_ends, grouped_columns, sizes_of_ends
from .swiglu import clamped_glu, halves, interleaved, swiglu

_NAME = "npu_swiglu_mx_quant"


@npu_operator
def npu_swiglu_mx_quant(
    x: Tensor,
    *,
    group_index: Tensor | None = None,
    activate_dim: int = -1,
    activate_left: bool = False,
    swiglu_mode: int = 0,
    clamp_limit: float = 7.0,
    glu_alpha: float = 1.702,
    glu_bias: float = 1.0,
    group_mode: int = 0,
    axis: int = -1,
    dst_type: int = 296,
    round_mode: str = "rint",
    scale_alg: int = 0,
    max_dtype_value: float = 0,
) -> tuple[Tensor, Tensor]:
    """Gates one half of x along `activate_dim` by the other, rounds to x's dtype, and
    quantises blocks of 32 along `axis` as npu_dynamic_mx_quant does.

    x             float16 or bfloat16, of 2 to 7 dimensions
    activate_dim, axis  one of the last two dimensions
    swiglu_mode   0: silu(a) b, where a is the left half with `activate_left`. 1: the even
                  places a, at most `clamp_limit`, and the odd ones b, from -clamp_limit to
                  clamp_limit: a sigmoid(glu_alpha a) (b + glu_bias). 2: the same of
                  halves. 3: silu(a), at most clamp_limit, times the clamped b
    group_index   (groups,): the sizes of groups of rows. Blocks along the rows begin anew
                  with each group, and the scales of group g at place rows // 64 + g, from
                  the rows before it. Rows and scales of no group are 0

    Returns the elements and the scales. RuntimeError: another shape, dtype or option.
    """
    check_dtype(x, _NAME, "x", (torch.float16, torch.bfloat16))
    check(2 <= x.dim() <= 7, _NAME, f"x must have 2 to 7 dimensions, got {x.dim()}")
    for what, dim in (("activate_dim", activate_dim), ("axis", axis)):
        known = dim in (-1, -2, x.dim() - 1, x.dim() - 2)
        check(known, _NAME, f"{what} must be one of the last two dimensions, got {dim}")
    activate_dim, axis = activate_dim % x.dim() - x.dim(), axis % x.dim() - x.dim()
    fits = swiglu_mode == 0 or activate_dim == -1
    check(fits, _NAME, f"swiglu_mode {swiglu_mode} needs activate_dim -1")
    fits = swiglu_mode not in (2, 3) or axis == -1
    check(fits, _NAME, f"swiglu_mode {swiglu_mode} needs axis -1")
    check(scale_alg in (0, 1), _NAME, f"scale_alg must be 0 or 1, got {scale_alg}")
    check(group_mode == 0, _NAME, f"group_mode must be 0, got {group_mode}")
    nothing = max_dtype_value == 0
    check(nothing, _NAME, f"max_dtype_value must be 0, got {max_dtype_value}")
    blocks = mx_blocks(_NAME, dst_type, round_mode, algorithm=scale_alg)
    size = x.shape[activate_dim]
    check(size % 2 == 0, _NAME, f"dimension activate_dim of x must be even, got {size}")
    gate = (activate_left, clamp_limit, glu_alpha, glu_bias)
    made = _gated(x, activate_dim, swiglu_mode, *gate).to(x.dtype)
    even = not blocks.element.is_packed or made.shape[-1] % 2 == 0
    check(even, _NAME, f"half of x's last dimension must be even, got {made.shape[-1]}")
    if group_index is None:
        return blocks.quantise(made, axis)
    _check_groups(x, group_index, activate_dim, axis)
    if axis == -2:
        return grouped_columns(made, group_index, blocks)
    stored, scales = blocks.quantise(made, axis)
    return _kept(stored, group_index, 1), _kept(scales, group_index, 2)


def _gated(
    x: Tensor, dim: int, mode: int, left: bool, limit: float, alpha: float, bias: float
) -> Tensor:
    check(mode in (0, 1, 2, 3), _NAME, f"no such swiglu_mode: {mode}")
    check(mode == 0 or limit > 0, _NAME, f"clamp_limit must be positive, got {limit}")
    wide = x.to(torch.float32).movedim(dim, -1)
    gate, linear = interleaved(wide) if mode == 1 else halves(wide)
    if mode != 1 and not left:
        gate, linear = linear, gate
    if mode == 0:
        made = functional.silu(gate) * linear
    elif mode == 3:
        made = functional.silu(gate).clamp(max=limit) * linear.clamp(-limit, limit)
    else:
        made = clamped_glu(gate, linear, limit, alpha, bias)
    return made.movedim(-1, dim)


def _check_groups(x: Tensor, group_index: Tensor, activate_dim: int, axis: int) -> None:
    check_dtype(group_index, _NAME, "group_index", (torch.int32, torch.int64))
    fits = group_index.dim() == 1 and 0 < group_index.shape[0] <= 256
    shape = tuple(group_index.shape)
    check(fits, _NAME, f"group_index must have 1 to 256 elements, got {shape}")
    flat = x.dim() == 2 or -2 not in (activate_dim, axis)
    check(flat, _NAME, f"group_index along rows needs x of 2 dimensions, got {x.dim()}")


def _kept(values: Tensor, group_index: Tensor, last: int) -> Tensor:
    """Zeros in rows of no group; `last` dimensions are a row's own."""
    shape = values.shape[: values.dim() - last]
    rows = torch.arange(values.view(torch.uint8).flatten(-last)[..., 0].numel())
    inside = rows.reshape(*shape, *(1,) * last) < group_index.sum()
    data = values.view(torch.uint8)
    return torch.where(inside, data, torch.zeros_like(data)).view(values.dtype)


@npu_operator
def npu_swiglu_mx_quant_with_dual_axis(
    x: Tensor,
    *,
    group_index: Tensor | None = None,
    activate_left: bool = True,
    round_mode: str = "rint",
    scale_alg: int = 1,
    dst_type: int = 24,
    dst_type_max: float = 0,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """npu_swiglu of rows, rounded to x's dtype, and quantised twice as
    npu_dynamic_mx_quant does: in blocks along rows, and in blocks along columns.

    x             float16 or bfloat16 (rows, 2 n)
    group_index   (groups,): the ends of groups of rows, up to the last row. Blocks along
                  columns begin anew with each group, as those of npu_swiglu_mx_quant
    dst_type_max  for scale_alg 2, as npu_dynamic_mx_quant has it

    Returns the elements and scales of rows, then those of columns. RuntimeError: another
    shape, dtype or option.
    """
    name = "npu_swiglu_mx_quant_with_dual_axis"
    check_dtype(x, name, "x", (torch.float16, torch.bfloat16))
    fits = x.dim() == 2 and x.shape[1] % 2 == 0
    check(fits, name, f"x must be rows of an even size, got {tuple(x.shape)}")
    blocks = mx_blocks(
        name, dst_type, round_mode, algorithm=scale_alg, largest=dst_type_max
    )
    made = swiglu(x.to(torch.float32), activate_left).to(x.dtype)
    even = not blocks.element.is_packed or made.shape[-1] % 2 == 0
    check(even, name, f"half of x's last dimension must be even, got {made.shape[-1]}")
    if group_index is None:
        return *blocks.quantise(made), *blocks.quantise(made, -2)
    check_ends(group_index, name, "group_index")
    columns = grouped_columns(made, sizes_of_ends(group_index), blocks)
    return *blocks.quantise(made), *columns
