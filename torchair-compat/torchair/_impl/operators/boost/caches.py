"""Writes keys and values to a cache of pages."""

from __future__ import annotations

from torch import Tensor

from ..caches.paged import scatter
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
    scatter(name, what, rows, cache, slots, blocks=True, argument="slot_indices")
