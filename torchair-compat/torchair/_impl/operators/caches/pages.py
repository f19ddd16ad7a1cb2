"""Operators that read pages of a cache, and that write to one.

After the schemas of Ascend's op-plugin, of npu_gather_pa_kv_cache and
npu_scatter_pa_cache."""

from __future__ import annotations

import torch
from torch import Tensor

from ..checks import INTEGERS, check, check_dtype, check_shape
from ..definition import npu_operator
from ..quantisation.rows import group_of_rows
from ..schema import Written
from .paged import scatter


@npu_operator
def npu_gather_pa_kv_cache(
    key_cache: Tensor,
    value_cache: Tensor,
    block_tables: Tensor,
    seq_lens: Tensor,
    key: Written,
    value: Written,
    *,
    seq_offset: Tensor | None = None,
    is_seq_lens_cumsum: bool = False,
) -> None:
    """Copies the keys and values of sequences out of the pages of a cache, one sequence
    after another.

    key_cache, value_cache  (blocks, block_size, heads, dim), or in FRACTAL_NZ (blocks,
                  heads * dim / n, block_size, n), where n is 16, or 32 for bytes
    block_tables  (b, pages): the blocks of each sequence
    seq_lens      (b,): the rows of each; with `is_seq_lens_cumsum` (b + 1,): their sums,
                  from 0 on
    seq_offset    (b,): where each begins, rounded down to a page
    key, value    (tokens, heads, dim): written. Rows after all sequences stay; rows of
                  no block become zeros

    RuntimeError: another shape or dtype.
    """
    name = "npu_gather_pa_kv_cache"
    given = block_tables, seq_lens, seq_offset, is_seq_lens_cumsum
    for what, cache, rows in (
        ("key", key_cache, key),
        ("value", value_cache, value),
    ):
        gather_pages(name, what, cache, rows, *given)


@npu_operator
def npu_gather_pa_kv_cache_functional(
    key_cache: Tensor,
    value_cache: Tensor,
    block_tables: Tensor,
    seq_lens: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    seq_offset: Tensor | None = None,
    is_seq_lens_cumsum: bool = False,
) -> tuple[Tensor, Tensor]:
    """npu_gather_pa_kv_cache into copies of key and value, which it returns.
    RuntimeError: as there."""
    name = "npu_gather_pa_kv_cache_functional"
    given = block_tables, seq_lens, seq_offset, is_seq_lens_cumsum
    copies = key.clone(), value.clone()
    for what, cache, rows in zip(("key", "value"), (key_cache, value_cache), copies):
        gather_pages(name, what, cache, rows, *given)
    return copies


def gather_pages(
    name: str,
    what: str,
    cache: Tensor,
    rows: Tensor,
    table: Tensor,
    lens: Tensor,
    offset: Tensor | None,
    is_sums: bool,
    names: tuple[str, str, str] = ("block_tables", "seq_lens", "seq_offset"),
) -> None:
    """Writes the rows of sequences, out of their pages, into `rows`. `names`: what the
    operator calls the table, the lengths and the offsets."""
    check_dtype(cache, name, f"{what}_cache", (rows.dtype,))
    for argument, given in zip(names, (table, lens, offset)):
        check_dtype(given, name, argument, INTEGERS)
    check(table.dim() == 2, name, f"{names[0]} must have 2 dimensions")
    batch = table.shape[0]
    check_shape(lens, name, names[1], (batch + int(is_sums),))
    check_shape(offset, name, names[2], (batch,))
    pages = _pages(name, what, cache, rows)
    size = pages.shape[1]
    ends = lens.to(torch.int64)[1:] if is_sums else lens.to(torch.int64).cumsum(0)
    starts = torch.cat([ends.new_zeros(1), ends[:-1]])
    numbers = torch.arange(rows.shape[0], device=rows.device)
    sequence = group_of_rows(ends, rows.shape[0])
    inside = sequence < batch
    sequence = sequence.clamp(max=batch - 1)
    place = numbers - starts[sequence]
    page = place // size
    if offset is not None:
        page = page + (offset.to(torch.int64) // size)[sequence]
    block = table.to(torch.int64)[sequence, page.clamp(0, table.shape[1] - 1)]
    known = (page < table.shape[1]) & (block >= 0) & (block < cache.shape[0])
    found = pages[torch.where(known, block, 0), place % size].reshape(rows.shape)
    shape = [-1] + [1] * (rows.dim() - 1)
    found = torch.where(known.reshape(shape), found, torch.zeros_like(found))
    rows.copy_(torch.where(inside.reshape(shape), found, rows))


def _pages(name: str, what: str, cache: Tensor, rows: Tensor) -> Tensor:
    """The cache as (blocks, block_size, ...), with the elements of a row in order."""
    check(rows.dim() == 3, name, f"{what} must have 3 dimensions, got {rows.dim()}")
    check(cache.dim() == 4, name, f"{what}_cache must have 4 dimensions")
    last = 32 if rows.element_size() == 1 else 16
    width = rows.shape[1] * rows.shape[2]
    if tuple(cache.shape[2:]) == tuple(rows.shape[1:]):
        return cache
    blocked = cache.shape[3] == last and cache.shape[1] * last == width
    text = f"{what}_cache of shape {tuple(cache.shape)} has no rows of"
    check(blocked, name, f"{text} {tuple(rows.shape[1:])}")
    return cache.transpose(1, 2)


@npu_operator
def npu_scatter_pa_cache(
    key: Tensor,
    slot_mapping: Tensor,
    *,
    compress_lens: Tensor | None = None,
    compress_seq_offsets: Tensor | None = None,
    seq_lens: Tensor | None = None,
    key_cache: Written,
) -> Written:
    """npu_scatter_pa_kv_cache of keys alone, with `cache_mode` "Norm". Returns key_cache.
    RuntimeError: as there."""
    name = "npu_scatter_pa_cache"
    told = compress_lens, compress_seq_offsets, seq_lens
    scatter(name, "key", key, key_cache, slot_mapping, *told, blocks=False)
    return key_cache
