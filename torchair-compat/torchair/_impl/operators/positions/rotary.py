"""Rotary embeddings of positions.

After Ascend's API reference of torch_npu: pages npu_rotary_mul,
npu_apply_rotary_pos_emb and npu_interleave_rope."""

from __future__ import annotations

import torch
from torch import Tensor

from ..checks import FLOATS, check, check_dtype
from ..definition import npu_operator
from ..schema import Reserved


@npu_operator
def npu_rotary_mul(
    self: Tensor,
    r1: Tensor,
    r2: Tensor,
    rotary_mode: str = "half",
    rotate: Reserved[Tensor | None] = None,
) -> Tensor:
    """x * r1 + rotated(x) * r2, in self's dtype.

    r1, r2       tables that broadcast to self, which may be in any layout; the arithmetic
                 is in the widest dtype of the three
    rotary_mode  "half" rotates (a, b) to (-b, a); "interleave" does so with each pair
                 of neighbours

    RuntimeError: another shape, dtype or mode.
    """
    name = "npu_rotary_mul"
    check(
        rotary_mode in ("half", "interleave"),
        name,
        f"no such rotary_mode: {rotary_mode!r}",
    )
    check(
        self.dim() > 0 and self.shape[-1] % 2 == 0,
        name,
        f"self must have an even last dimension, got {tuple(self.shape)}",
    )
    for what, table in (("r1", r1), ("r2", r2)):
        check(
            table.dim() <= self.dim()
            and all(a in (1, b) for a, b in zip(table.shape[::-1], self.shape[::-1])),
            name,
            f"{what} of shape {tuple(table.shape)} can't be broadcast to that of self,"
            f" {tuple(self.shape)}",
        )
    if rotary_mode == "half":
        left, right = self.chunk(2, -1)
        rotated = torch.cat((-right, left), -1)
    else:
        rotated = torch.stack((-self[..., 1::2], self[..., 0::2]), -1).flatten(-2)
    return (self * r1 + rotated * r2).to(self.dtype)


# For each layout, how many dimensions queries and keys may have.
_LAYOUTS = {"BSND": (4,), "BSH": (3, 4), "SBND": (4,), "BNSD": (4,), "TND": (3,)}


@npu_operator
def npu_apply_rotary_pos_emb(
    query: Tensor,
    key: Tensor,
    cos: Tensor,
    sin: Tensor,
    layout: str = "BSND",
    rotary_mode: str = "half",
) -> tuple[Tensor, Tensor]:
    """npu_rotary_mul of query and of key, with tables that are broadcast over heads. Both
    results are new tensors.

    query, key  in `layout`: BSND, SBND, BNSD, TND, or BSH, whose heads have the width of
                the tables; BSH may also have four dimensions, as BSND
    cos, sin    the layout of query with one head, or without the dimension of heads for
                BSH of three dimensions

    RuntimeError: another layout or rank, or as npu_rotary_mul raises.
    """
    name = "npu_apply_rotary_pos_emb"
    check(layout in _LAYOUTS, name, f"no such layout: {layout!r}")
    ranks = _LAYOUTS[layout]
    turned = []
    for what, x in (("query", query), ("key", key)):
        text = (
            f"{what} of layout {layout} must have {ranks[0]} dimensions, got {x.dim()}"
        )
        check(x.dim() in ranks, name, text)
        joined = layout == "BSH" and x.dim() == 3
        turned.append(
            (_of_heads if joined else npu_rotary_mul)(x, cos, sin, rotary_mode)
        )
    return turned[0], turned[1]


def _of_heads(x: Tensor, cos: Tensor, sin: Tensor, rotary_mode: str) -> Tensor:
    """npu_rotary_mul of each head of x (batch, length, heads * width)."""
    name, width = "npu_apply_rotary_pos_emb", cos.shape[-1]
    fits = x.shape[-1] % width == 0
    check(
        fits, name, f"rows of {x.shape[-1]} elements are no heads of {width} elements"
    )
    r1, r2 = (t.unsqueeze(-2) if t.dim() == 3 else t for t in (cos, sin))
    heads = x.unflatten(-1, (x.shape[-1] // width, width))
    return npu_rotary_mul(heads, r1, r2, rotary_mode).flatten(-2)


@npu_operator
def npu_interleave_rope(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotates pairs of neighbours and puts the halves of the pairs after each other,
    computed in f32.

    x         (b, n, s, d) float, d even
    cos, sin  (b or 1, 1, s or 1, d), in x's dtype

    Returns (b, n, s, d) in x's dtype. RuntimeError: another shape or dtype.
    """
    name = "npu_interleave_rope"
    check_dtype(x, name, "x", FLOATS)
    right = x.dim() == 4 and x.shape[3] % 2 == 0
    check(right, name, f"x must be (b, n, s, even d), got {tuple(x.shape)}")
    batch, _, length, width = x.shape
    for what, table in (("cos", cos), ("sin", sin)):
        check_dtype(table, name, what, (x.dtype,))
        sizes = tuple(table.shape)
        fits = len(sizes) == 4 and sizes[1] == 1 and sizes[3] == width
        fits = fits and sizes[0] in (1, batch) and sizes[2] in (1, length)
        text = f"{what} must be ({batch} or 1, 1, {length} or 1, {width}), got {sizes}"
        check(fits, name, text)
    return rotated_pairs(x, cos, sin).to(x.dtype)


def rotated_pairs(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """x cos + (-x2, x1) sin in f32, where neighbours are the halves x1 and x2 of pairs."""
    pairs = x.to(torch.float32).unflatten(-1, (-1, 2))
    left, right = pairs[..., 0], pairs[..., 1]
    halves, swapped = torch.cat([left, right], -1), torch.cat([-right, left], -1)
    return halves * cos.to(torch.float32) + swapped * sin.to(torch.float32)
