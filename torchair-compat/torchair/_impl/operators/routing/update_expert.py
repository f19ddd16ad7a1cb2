"""npu_moe_update_expert: the ranks that copies of experts are on, and who is left out.

After Ascend's API reference of torch_npu, page of its name."""

from __future__ import annotations

import torch
from torch import Tensor

from ..checks import FLOATS, INTEGERS, check, check_dtype, check_shape
from ..definition import npu_operator

_NAME = "npu_moe_update_expert"
_BY_RANK, _BY_ROW = 0, 1


@npu_operator
def npu_moe_update_expert(
    expert_ids: Tensor,
    eplb_table: Tensor,
    *,
    expert_scales: Tensor | None = None,
    pruning_threshold: Tensor | None = None,
    active_mask: Tensor | None = None,
    local_rank_id: int = -1,
    world_size: int = -1,
    balance_mode: int = 0,
) -> tuple[Tensor, Tensor]:
    """Replaces each expert by one of its copies, and says which choices stay.

    expert_ids         (rows, k) int32 or int64: experts
    eplb_table         (experts, f) int32: how many copies an expert has, and what each
                       copy is called
    balance_mode       0: neighbours of `world_size` ranks share a copy, so that all have
                       about as many; 1: a row's number says which
    local_rank_id      this rank, for balance_mode 0
    expert_scales      (rows, k) float; pruning_threshold: (k,) or (1, k) f32. A choice
                       whose scale is below the threshold times the row's sum is left out
    active_mask        (rows,) bool: other rows are left out

    Returns the copies, as expert_ids, and (rows, k) bool: which choices stay; an empty
    tensor without expert_scales. RuntimeError: another shape, dtype or mode.
    """
    check_dtype(expert_ids, _NAME, "expert_ids", INTEGERS)
    check_dtype(eplb_table, _NAME, "eplb_table", (torch.int32,))
    for what, tensor in (("expert_ids", expert_ids), ("eplb_table", eplb_table)):
        text = f"{what} must have 2 dimensions, got {tensor.dim()}"
        check(tensor.dim() == 2, _NAME, text)
    check(eplb_table.shape[1] >= 2, _NAME, "eplb_table must have 2 columns or more")
    known = balance_mode in (_BY_RANK, _BY_ROW)
    check(known, _NAME, f"balance_mode must be 0 or 1, got {balance_mode}")
    lines = eplb_table[expert_ids.to(torch.int64)].to(torch.int64)
    count = lines[..., 0]
    if balance_mode == _BY_RANK:
        check(world_size > 0, _NAME, f"world_size must be positive, got {world_size}")
        inside = 0 <= local_rank_id < world_size
        text = f"local_rank_id must be from 0 to {world_size - 1}, got {local_rank_id}"
        check(inside, _NAME, text)
        copy = local_rank_id // ((world_size + count - 1) // count)
    else:
        given = local_rank_id, world_size
        text = f"local_rank_id and world_size must be -1 in balance_mode 1, got {given}"
        check(given == (-1, -1), _NAME, text)
        rows = torch.arange(expert_ids.shape[0], device=expert_ids.device)
        copy = rows.unsqueeze(-1) % count
    found = lines.gather(-1, (copy + 1).unsqueeze(-1)).squeeze(-1)
    stays = _stays(expert_ids, expert_scales, pruning_threshold, active_mask)
    return found.to(expert_ids.dtype), stays


def _stays(
    expert_ids: Tensor,
    scales: Tensor | None,
    threshold: Tensor | None,
    mask: Tensor | None,
) -> Tensor:
    rows, k = expert_ids.shape
    both = (scales is None) == (threshold is None)
    check(both, _NAME, "expert_scales and pruning_threshold go together")
    if scales is None or threshold is None:
        check(mask is None, _NAME, "active_mask needs expert_scales")
        return torch.empty(0, dtype=torch.bool, device=expert_ids.device)
    check_dtype(scales, _NAME, "expert_scales", FLOATS)
    check_shape(scales, _NAME, "expert_scales", (rows, k))
    check_dtype(threshold, _NAME, "pruning_threshold", (torch.float32,))
    check_shape(threshold, _NAME, "pruning_threshold", (k,), (1, k))
    check_dtype(mask, _NAME, "active_mask", (torch.bool,))
    check_shape(mask, _NAME, "active_mask", (rows,))
    wide = scales.to(torch.float32)
    stays = wide >= threshold.reshape(1, k) * wide.sum(-1, keepdim=True)
    return stays if mask is None else stays & mask.unsqueeze(-1)
