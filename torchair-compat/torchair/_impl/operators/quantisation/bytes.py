"""Elements that are stored as bytes among others."""

from __future__ import annotations

import torch
from torch import Tensor

# The integers of the width of each dtype. A view between them keeps the number of elements,
# which the compiler's kernels do; a view of bytes would be a call of PyTorch.
_INTEGERS = {1: torch.int8, 2: torch.int16, 4: torch.int32}


def from_bytes(rows: Tensor, kind: torch.dtype) -> Tensor:
    """The elements of `kind` (..., n) that the bytes (..., n * width) hold, the lowest byte
    first."""
    integers = _INTEGERS[kind.itemsize]
    parts = (
        rows.view(torch.int8).unflatten(-1, (-1, kind.itemsize)).to(torch.int32) & 255
    )
    whole = (parts << _shifts(kind.itemsize, rows)).sum(-1, dtype=torch.int32)
    return whole.to(integers).view(kind)


def to_bytes(values: Tensor) -> Tensor:
    """The bytes (..., n * width) int8 of elements (..., n)."""
    width = values.element_size()
    whole = values.view(_INTEGERS[width]).to(torch.int32).unsqueeze(-1)
    parts = (whole >> _shifts(width, values)) & 255
    return ((parts ^ 128) - 128).to(torch.int8).flatten(-2)


def _shifts(width: int, like: Tensor) -> Tensor:
    return torch.arange(0, 8 * width, 8, dtype=torch.int32, device=like.device)
