"""The rank of this process, which is part of the names of dumped files."""

from __future__ import annotations

import torch

__all__ = ["rank"]


def rank() -> int:
    distributed = torch.distributed
    if distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank()
    return 0
