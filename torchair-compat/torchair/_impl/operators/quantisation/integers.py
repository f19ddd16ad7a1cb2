"""Rounding to int8, and int4 packed in int32."""

from __future__ import annotations

import torch


def to_int8(values: torch.Tensor) -> torch.Tensor:
    """Rounded half to even and clamped to -128..127."""
    return values.round().clamp(-128, 127).to(torch.int8)


def pack_int4(values: torch.Tensor) -> torch.Tensor:
    """Packs integers (..., 8 n) from -8 to 7 into int32 (..., n), the first of eight in
    the lowest four bits."""
    shifts = torch.arange(0, 32, 4, dtype=torch.int32, device=values.device)
    nibbles = (values.to(torch.int32) & 15).unflatten(-1, (-1, 8)) << shifts
    return nibbles.sum(-1).to(torch.int32)


def unpack_int4(packed: torch.Tensor) -> torch.Tensor:
    """Unpacks int32 (..., n) to int8 (..., 8 n): nibbles, the least significant one
    first."""
    shifts = torch.arange(0, 32, 4, dtype=torch.int32, device=packed.device)
    nibbles = (packed.unsqueeze(-1) >> shifts) & 15
    return ((nibbles ^ 8) - 8).to(torch.int8).flatten(-2)
