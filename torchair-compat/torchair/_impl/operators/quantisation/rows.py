"""Rows that are quantised by scales of their own, and groups of rows."""

from __future__ import annotations

import torch
from torch import Tensor


def row_scale(values: Tensor, largest: int = 127) -> tuple[Tensor, Tensor]:
    """int8 rows, none beyond `largest`, and the f32 scale of each. Rows of zeros have
    scale 1."""
    scale = unit_for_zero(values.abs().amax(-1) / largest)
    made = (values / scale.unsqueeze(-1)).round()
    return made.clamp(-largest - 1, largest).to(torch.int8), scale


def unit_for_zero(scale: Tensor) -> Tensor:
    """The scales, with 1 in the place of 0: to divide by."""
    return torch.where(scale == 0, torch.ones_like(scale), scale)


def group_of_rows(ends: Tensor, rows: int) -> Tensor:
    """The group of each row, from the end of each group's rows. Rows beyond get the
    number of groups."""
    numbers = torch.arange(rows, device=ends.device)
    return (numbers.unsqueeze(-1) >= ends).sum(-1)


def of_group(values: Tensor, groups: Tensor | None) -> Tensor:
    """The table's row for the group of each row, in f32: (T, n) or (T, 1). Without
    groups: a tensor that broadcasts to it."""
    values = values.to(torch.float32)
    if groups is None:
        return values
    table = values.unsqueeze(-1) if values.dim() == 1 else values
    return table[groups.clamp(max=table.shape[0] - 1)]
