"""The name of this process in TorchAir's folders."""

from __future__ import annotations

import torch


def process_name(
    global_rank: int | None, tp_rank: int | None, pp_rank: int | None
) -> str:
    """The ranks that there are, such as `world2global_rank0_tp_rank0`; empty for a
    process by itself. None for `global_rank`: the rank in torch.distributed."""
    parts = []
    group = torch.distributed
    if group.is_available() and group.is_initialized():
        size = group.get_world_size()
        rank = group.get_rank() if global_rank is None else global_rank
        if size > 1:
            parts.append(f"world{size}global_rank{rank}")
    if tp_rank is not None:
        parts.append(f"tp_rank{tp_rank}")
    if pp_rank is not None:
        parts.append(f"pp_rank{pp_rank}")
    return "_".join(parts)
