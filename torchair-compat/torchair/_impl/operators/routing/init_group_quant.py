"""npu_moe_init_routing_group_quant: npu_moe_init_routing_v2 with rows of float8.

After the page of that operator in Ascend's inference recipes."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ..checks import check
from ..definition import npu_operator
from .init_routing import npu_moe_init_routing_v2

_GROUP = 128
# The dtype of each quant_mode that has a scale for each group of elements.
_BY_GROUP = {4: torch.float8_e5m2, 5: torch.float8_e4m3fn}


@npu_operator
def npu_moe_init_routing_group_quant(
    x: Tensor,
    expert_idx: Tensor,
    scale: Tensor | None = None,
    offset: Tensor | None = None,
    active_num: int = -1,
    expert_capacity: int = -1,
    expert_num: int = -1,
    drop_pad_mode: int = -1,
    expert_tokens_num_type: int = -1,
    expert_tokens_num_flag: bool = False,
    quant_mode: int = -1,
    active_expert_range: Sequence[int] = (),
    row_idx_type: int = -1,
    group_size: int = 128,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """npu_moe_init_routing_v2 with two more ways to quantise.

    quant_mode  -1, 0, 1, 2 and 3 as there; 4: float8_e5m2, 5: float8_e4m3fn, with a scale for
                each 128 elements of a row: their largest over that of the dtype, (rows, h
                / 128) f32; zeros for rows of no expert
    group_size  128
    drop_pad_mode, expert_tokens_num_type, row_idx_type  -1 is 0

    The results are those of npu_moe_init_routing_v2. RuntimeError: as there, or another
    mode.
    """
    name = "npu_moe_init_routing_group_quant"
    known = (-1, 0, 1, 2, 3, *_BY_GROUP)
    text = f"quant_mode must be one of {known}, got {quant_mode}"
    check(quant_mode in known, name, text)
    check(group_size == _GROUP, name, f"group_size must be 128, got {group_size}")
    kind = _BY_GROUP.get(quant_mode)
    rows, places, sizes, scales = npu_moe_init_routing_v2(
        x,
        expert_idx,
        scale=scale,
        offset=offset,
        active_num=active_num,
        expert_capacity=expert_capacity,
        expert_num=expert_num,
        drop_pad_mode=_mode(drop_pad_mode),
        expert_tokens_num_type=_mode(expert_tokens_num_type),
        expert_tokens_num_flag=expert_tokens_num_flag,
        quant_mode=quant_mode if kind is None else -1,
        active_expert_range=active_expert_range,
        row_idx_type=_mode(row_idx_type),
    )
    if kind is None:
        return rows, places, sizes, scales
    check(scale is None, name, f"scale must be None in quant_mode {quant_mode}")
    made, scales = _by_group(rows, kind)
    return made, places, sizes, scales


def _mode(given: int) -> int:
    return 0 if given == -1 else given


def _by_group(rows: Tensor, kind: torch.dtype) -> tuple[Tensor, Tensor]:
    """Rows (..., h) as float8, and the scales of groups (..., h / 128)."""
    width = rows.shape[-1]
    wide = torch.nn.functional.pad(rows.to(torch.float32), (0, -width % _GROUP))
    parts = wide.unflatten(-1, (-1, _GROUP))
    most = torch.finfo(kind).max
    scales = parts.abs().amax(-1) / most
    safe = torch.where(scales == 0, 1.0, scales).unsqueeze(-1)
    made = (parts / safe).clamp(-most, most).flatten(-2)[..., :width]
    return made.to(kind), scales
