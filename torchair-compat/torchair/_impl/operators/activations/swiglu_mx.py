"""npu_swiglu_mx_quant: a gate, and MX blocks of what it makes.

After the reference of Ascend's kernels, page aclnnSwigluMxQuant."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from ..checks import check, check_dtype
from ..definition import npu_operator
from ..quantisation.blocks import MxBlocks, mx_blocks
from ..quantisation.small_floats import scale_values
from .swiglu import clamped_glu, halves, interleaved

_NAME = "npu_swiglu_mx_quant"
_BLOCK, _PAIR = 32, 64


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
        return _grouped_columns(made, group_index, blocks)
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


def _grouped_columns(
    x: Tensor, group_index: Tensor, blocks: MxBlocks
) -> tuple[Tensor, Tensor]:
    """Blocks of 32 rows of each group, from x (rows, n)."""
    floats = blocks.element.floats
    assert floats is not None
    rows, groups = x.shape[0], group_index.shape[0]
    sizes = group_index.to(torch.int64)
    ends = sizes.cumsum(0)
    number = torch.arange(rows, device=x.device)
    group = torch.bucketize(number, ends, right=True)
    inside = (group < groups).unsqueeze(-1)
    group = group.clamp(max=groups - 1)
    start = (ends - sizes)[group]
    pair = start // _PAIR + group + (number - start) // _PAIR
    place = pair * 2 + (number - start) % _PAIR // _BLOCK
    count = (rows // _PAIR + groups) * 2
    place = torch.where(inside.squeeze(-1), place, 0)
    wide = x.to(torch.float32)
    magnitude = torch.where(inside, wide.abs(), torch.zeros_like(wide))
    top = wide.new_zeros(count, x.shape[1])
    index = place.unsqueeze(-1).expand_as(magnitude)
    scales = blocks.choose(top.scatter_reduce(0, index, magnitude, "amax"))
    inverse = scale_values((254 - scales).clamp(min=0))[place]
    inverse = torch.where(scales[place] == 255, torch.nan, inverse)
    codes = floats.encode(wide * inverse, blocks.rounding)
    codes = torch.where(inside, codes, torch.zeros_like(codes))
    pairs = scales.to(torch.uint8).unflatten(0, (-1, 2)).movedim(1, -1)
    return blocks.element.store(codes), pairs
