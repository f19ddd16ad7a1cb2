"""How a cache keeps the keys or the values of a layer: as a model computes them, or as
integers or floats of eight bits with a scale for each token of a head."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import torch

# The values of `kv_cache_dtype` besides None, which means as the model computes them.
KINDS = {
    "int8": torch.int8,
    "fp8_e4m3": torch.float8_e4m3fn,
    "fp8_e5m2": torch.float8_e5m2,
}
# The number that the largest one of a row becomes. -128 is left out, so that the range
# is symmetric.
LARGEST = {
    torch.int8: 127.0,
    torch.float8_e4m3fn: torch.finfo(torch.float8_e4m3fn).max,
    torch.float8_e5m2: torch.finfo(torch.float8_e5m2).max,
}

# States [..., size], or their numbers of eight bits [..., size] and scales float32
# [..., 1].
Kept: TypeAlias = "tuple[torch.Tensor, ...]"


def stored_dtype(kv_cache_dtype: str | None) -> torch.dtype | None:
    """The dtype of kept numbers; None: the model's own. ValueError: an unknown kind."""
    if kv_cache_dtype is None:
        return None
    if isinstance(kv_cache_dtype, str) and kv_cache_dtype in KINDS:
        return KINDS[kv_cache_dtype]
    names = ", ".join(repr(name) for name in KINDS)
    raise ValueError(
        f"kv_cache_dtype must be None or one of {names}, got {kv_cache_dtype!r}"
    )


def empty(size: Sequence[int], dtype: torch.dtype, stored: torch.dtype | None) -> Kept:
    """Zeros [*size] of states that are computed in `dtype`."""
    if stored is None:
        return (torch.zeros(size, dtype=dtype),)
    scales = torch.zeros((*size[:-1], 1), dtype=torch.float32)
    return torch.zeros(size, dtype=stored), scales


def write(kept: Kept, dim: int, index: torch.Tensor, states: torch.Tensor) -> None:
    """Replaces what is kept at these positions of a dimension."""
    parts = (states,) if len(kept) == 1 else to_bytes(states, kept[0].dtype)
    for memory, part in zip(kept, parts):
        if memory.dtype in LARGEST and not torch.compiler.is_compiling():
            # PyTorch copies no floats of eight bits. In a graph a view would copy the
            # whole memory.
            memory, part = memory.view(torch.int8), part.view(torch.int8)
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


def to_bytes(
    states: torch.Tensor, stored: torch.dtype
) -> tuple[torch.Tensor, torch.Tensor]:
    """Numbers and scales of [..., size]: the largest number of a row becomes the largest
    one of `stored`, and the others are rounded to the nearest."""
    states = states.float()
    scales = states.abs().amax(-1, keepdim=True) / LARGEST[stored]
    # A row of zeros has no scale; its numbers are zeros too.
    steps = states / scales.clamp_min(torch.finfo(torch.float32).tiny)
    return (steps if stored.is_floating_point else steps.round()).to(stored), scales


def row_bytes(size: int, dtype: torch.dtype, stored: torch.dtype | None) -> int:
    """The memory that one row of states takes."""
    return size * dtype.itemsize if stored is None else size + torch.float32.itemsize
