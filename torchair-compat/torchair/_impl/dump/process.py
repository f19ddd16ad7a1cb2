"""The rank of this process, which names of dumped files contain."""

from __future__ import annotations

import torch

__all__ = ["rank"]


def rank() -> int:
    distributed = torch.distributed
    if distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank()
    return 0
