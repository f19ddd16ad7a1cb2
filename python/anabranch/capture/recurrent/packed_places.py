"""Where the rows of packed sequences lie in a padded batch.

sizes 3 2 1         step 0: rows 0 1 2     step 1: rows 3 4     step 2: row 5"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Places(NamedTuple):
    """Where the places of a padded batch lie in packed data."""

    valid: Tensor  # bool [steps, batch]: whether the step has this sequence
    rows: Tensor  # int64 [steps, batch]: its row; 0 where there is none


def places(sizes: Tensor, batch: int) -> Places:
    """The places of a batch of so many sequences.

    sizes  int64 [steps]: how many sequences each step has
    """
    sequence = torch.arange(batch)
    valid = sequence < sizes.unsqueeze(1)
    begins = sizes.cumsum(0) - sizes
    return Places(valid, torch.where(valid, begins.unsqueeze(1) + sequence, 0))


def packed_rows(sizes: Tensor, count: int, batch: int) -> Tensor:
    """The place, step * batch + sequence, of each of so many packed rows."""
    ends, row = sizes.cumsum(0), torch.arange(count)
    step = (row.unsqueeze(1) >= ends).sum(1)
    return step * batch + row - (ends - sizes)[step]
