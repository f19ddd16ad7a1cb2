"""Gates: one half of a dimension scales the other.

After Ascend's API reference of torch_npu, page npu_clipped_swiglu, and of its kernels,
page aclnnGeGluV3."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from ..checks import check, check_dtype
from ..definition import npu_operator
from .swiglu import clamped_glu


@npu_operator
def npu_geglu(
    self: Tensor, dim: int = -1, approximate: int = 1, activate_left: bool = False
) -> tuple[Tensor, Tensor]:
    """GELU of one half along `dim`, times the other half, computed in f32.

    self           a float tensor of 1 to 8 dimensions; `dim` has an even size
    approximate    1 computes GELU by tanh, 0 exactly
    activate_left  whether GELU is of the first half

    Returns (product, GELU), in self's dtype. RuntimeError: another shape, dtype or option.
    """
    name = "npu_geglu"
    check_dtype(self, name, "self")
    check(1 <= self.dim() <= 8, name, f"self must have 1 to 8 dimensions: {self.dim()}")
    _check_halves(self, "self", dim, name)
    known = approximate in (0, 1)
    check(known, name, f"approximate must be 0 or 1, got {approximate}")
    left, right = self.to(torch.float32).chunk(2, dim)
    if not activate_left:
        left, right = right, left
    gelu = functional.gelu(left, approximate="tanh" if approximate == 1 else "none")
    return (gelu * right).to(self.dtype), gelu.to(self.dtype)


@npu_operator
def npu_clipped_swiglu(
    x: Tensor,
    *,
    group_index: Tensor | None = None,
    dim: int = -1,
    alpha: float = 1.702,
    limit: float = 7.0,
    bias: float = 1.0,
    interleaved: bool = True,
) -> Tensor:
    """a sigmoid(alpha a) (b + bias) of two halves a and b of x along `dim`, where a is at
    most `limit` and b from -limit to limit. Computed in f32.

    x            a float tensor of 2 or more dimensions; `dim` has an even size
    group_index  int64 (groups,): the sizes of groups of rows, which are all dimensions
                 before `dim` together. Rows of no group are 0
    interleaved  whether a and b are the even and the odd places of the dimensions from
                 `dim` on, as one. Else they are its halves

    The result has half of `dim`, and x's dtype. RuntimeError: another shape or dtype.
    """
    name = "npu_clipped_swiglu"
    check_dtype(x, name, "x")
    check(x.dim() > 1, name, f"x must have 2 or more dimensions, got {x.dim()}")
    _check_halves(x, "x", dim, name)
    place = dim % x.dim()
    shape = [*x.shape]
    shape[place] = shape[place] // 2
    rows = x.to(torch.float32).flatten(place)
    if interleaved:
        parts = rows[..., 0::2], rows[..., 1::2]
    else:
        left, right = rows.chunk(2, -1)
        parts = left, right
    made = clamped_glu(*parts, limit, alpha, bias)
    if group_index is not None:
        made = _inside(made, group_index, name)
    return made.reshape(shape).to(x.dtype)


def _inside(rows: Tensor, group_index: Tensor, name: str) -> Tensor:
    """The rows of groups, and zeros for the rest."""
    check_dtype(group_index, name, "group_index", (torch.int64,))
    flat = group_index.dim() == 1
    check(flat, name, f"group_index must have 1 dimension, got {group_index.dim()}")
    shape = rows.shape[:-1]
    count = rows[..., 0].numel()
    numbers = torch.arange(count, device=rows.device).reshape(*shape, 1)
    return torch.where(numbers < group_index.sum(), rows, torch.zeros_like(rows))


def _check_halves(x: Tensor, what: str, dim: int, name: str) -> None:
    fits = -x.dim() <= dim < x.dim()
    check(fits, name, f"{what} has {x.dim()} dimensions, there is no dim {dim}")
    size = x.shape[dim]
    check(size % 2 == 0, name, f"dimension {dim} of {what} must be even, got {size}")
