"""Rotary embeddings of positions.

After Ascend's API reference of torch_npu: pages npu_rotary_mul and
npu_apply_rotary_pos_emb."""

from __future__ import annotations

import torch
from torch import Tensor

from ..checks import check
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

    r1, r2       tables that broadcast to self
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
    return self * r1 + rotated * r2


@npu_operator
def npu_apply_rotary_pos_emb(
    query: Tensor,
    key: Tensor,
    cos: Tensor,
    sin: Tensor,
    layout: str = "BSND",
    rotary_mode: str = "half",
) -> tuple[Tensor, Tensor]:
    """npu_rotary_mul of query and of key, with tables that are broadcast over heads.
    RuntimeError: another layout than BSND, or as npu_rotary_mul raises."""
    if layout != "BSND":
        raise RuntimeError(f"npu_apply_rotary_pos_emb: no such layout: {layout!r}")
    turn = torch.ops.npu.npu_rotary_mul
    return turn(query, cos, sin, rotary_mode), turn(key, cos, sin, rotary_mode)
