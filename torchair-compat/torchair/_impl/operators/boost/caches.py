"""Writes keys and values to a cache of pages."""

from __future__ import annotations

import torch
from torch import Tensor

from ..caches.paged import CACHED, write_states
from ..checks import INTEGERS, check, check_dtype, check_shape
from ..definition import atb_operator
from ..schema import Written


@atb_operator
def _npu_reshape_and_cache(
    key: Tensor,
    value: Tensor,
    key_cache: Written,
    value_cache: Written,
    slot_indices: Tensor,
) -> None:
    """npu_scatter_pa_kv_cache with arguments of other names.

    key, value    (tokens, heads, dim)
    key_cache, value_cache  (blocks, block_size, heads, dim), or in FRACTAL_NZ
    slot_indices  (tokens,): slots count through all blocks; a negative slot is left out

    RuntimeError: another shape or dtype.
    """
    name = "_npu_reshape_and_cache"
    _write(name, "key", key, key_cache, slot_indices)
    _write(name, "value", value, value_cache, slot_indices)


@atb_operator
def _npu_reshape_and_cache_siso(
    key: Tensor, key_cache: Written, slot_indices: Tensor
) -> None:
    """_npu_reshape_and_cache of keys alone. RuntimeError: as there."""
    _write("_npu_reshape_and_cache_siso", "key", key, key_cache, slot_indices)


def _write(name: str, what: str, rows: Tensor, cache: Tensor, slots: Tensor) -> None:
    check_dtype(slots, name, "slot_indices", INTEGERS)
    check_dtype(rows, name, what, CACHED)
    check_dtype(cache, name, f"{what}_cache", (rows.dtype,))
    check(rows.dim() == 3, name, f"{what} must have 3 dimensions, got {rows.dim()}")
    check_shape(slots, name, "slot_indices", (rows.shape[0],))
    write_states(name, what, rows, cache, slots.to(torch.int64), True)
