"""How a cache keeps the keys or the values of a layer: as a model computes them, or as
bytes with a scale for each token of a head."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import torch

# The values of `kv_cache_dtype` besides None, which means as the model computes them.
KINDS = ("int8",)
# The largest byte. -128 is left out, so that the range is symmetric.
LARGEST = 127

# States [..., size], or their bytes int8 [..., size] and scales float32 [..., 1].
Kept: TypeAlias = "tuple[torch.Tensor, ...]"


def keeps_bytes(kv_cache_dtype: str | None) -> bool:
    """Whether states are kept as bytes. ValueError: an unknown kind."""
    if kv_cache_dtype is None or kv_cache_dtype in KINDS:
        return kv_cache_dtype is not None
    names = ", ".join(repr(name) for name in KINDS)
    raise ValueError(
        f"kv_cache_dtype must be None or one of {names}, got {kv_cache_dtype!r}"
    )


def empty(size: Sequence[int], dtype: torch.dtype, in_bytes: bool) -> Kept:
    """Zeros [*size] of states that are computed in `dtype`."""
    if not in_bytes:
        return (torch.zeros(size, dtype=dtype),)
    scales = torch.zeros((*size[:-1], 1), dtype=torch.float32)
    return torch.zeros(size, dtype=torch.int8), scales


def write(kept: Kept, dim: int, index: torch.Tensor, states: torch.Tensor) -> None:
    """Replaces what is kept at these positions of a dimension."""
    parts = (states,) if len(kept) == 1 else to_bytes(states)
    for memory, part in zip(kept, parts):
        memory.index_copy_(dim, index, part)


def read(
    kept: Kept, dtype: torch.dtype, take: Callable[[torch.Tensor], torch.Tensor]
) -> torch.Tensor:
    """The states that `take` chooses, in `dtype`. It chooses whole rows, from the states
    or from bytes and scales alike."""
    if len(kept) == 1:
        return take(kept[0])
    numbers, scales = map(take, kept)
    return (numbers.float() * scales).to(dtype)


def to_bytes(states: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Bytes and scales of [..., size]: the largest number of a row becomes +-127. The
    error of an element is at most half a scale."""
    states = states.float()
    scales = states.abs().amax(-1, keepdim=True) / LARGEST
    # A row of zeros has no scale; its bytes are zeros too.
    steps = states / scales.clamp_min(torch.finfo(torch.float32).tiny)
    return steps.round().to(torch.int8), scales


def row_bytes(size: int, dtype: torch.dtype, in_bytes: bool) -> int:
    """The memory that one row of states takes."""
    return size + torch.float32.itemsize if in_bytes else size * dtype.itemsize
