"""Decomposes `torch.eye` in the place of PyTorch's own decomposition, which counts rows
in uint16 where they fit. Neither the compiler nor eager PyTorch computes with uint16 on
a CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

aten = torch.ops.aten
MOST = torch.iinfo(torch.int32).max


def decompositions() -> dict[Any, Callable[..., Any]]:
    return {aten.eye.default: _eye, aten.eye.m: _eye}


def _eye(
    n: int,
    m: int | None = None,
    *,
    dtype: torch.dtype | None = None,
    layout: torch.layout | None = None,
    device: Any = None,
    pin_memory: bool | None = None,
) -> Any:
    if layout not in (None, torch.strided) or pin_memory:
        return NotImplemented
    sizes = (n, n if m is None else m)
    for size in sizes:
        torch._check(size >= 0, lambda: f"sizes must be 0 or more, got {sizes}")
    narrow = all(isinstance(size, int) and size <= MOST for size in sizes)
    counted = torch.int32 if narrow else torch.int64
    rows, columns = (torch.arange(size, dtype=counted, device=device) for size in sizes)
    equal = rows.unsqueeze(-1) == columns
    return equal.to(dtype or torch.get_default_dtype())
