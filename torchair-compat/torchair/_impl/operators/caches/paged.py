"""Operators that write keys and values into caches.

After Ascend's API reference of torch_npu, pages npu_scatter_pa_kv_cache, npu_quant_scatter
and npu_group_quant, and the reference of the transformer boost library, page
ReshapeAndCache, for the layout FRACTAL_NZ.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..checks import FLOATS, INTEGERS, check, check_dtype, check_shape
from ..definition import npu_operator
from ..schema import Written

CACHED = (*FLOATS, torch.int8, torch.uint8, torch.int16, torch.int32)


@npu_operator
def npu_scatter_pa_kv_cache(
    key: Tensor,
    value: Tensor,
    key_cache: Written,
    value_cache: Written,
    slot_mapping: Tensor,
    *,
    compress_lens: Tensor | None = None,
    compress_seq_offsets: Tensor | None = None,
    seq_lens: Tensor | None = None,
    cache_mode: str | None = "PA_NZ",
) -> None:
    """Writes keys and values to the slots of their caches, in place.

    key, value    (tokens, heads, dim)
    key_cache, value_cache  (blocks, block_size, heads, dim), or in FRACTAL_NZ (blocks,
                  heads * dim / n, block_size, n), where n is 16, or 32 for bytes; with
                  `cache_mode` "Norm" or None only the former
    slot_mapping  (tokens,): slots count through all blocks; a negative slot is left out

    Compressed caches have other shapes:

    key, value    (batch, length, heads, dim)
    key_cache, value_cache  (blocks, block_size, 1, dim)
    slot_mapping  (batch, heads): the first slot of each head
    seq_lens      (batch,): how many rows of each head count
    compress_lens  (batch, heads): how many of these rows are written, the last ones, to
                  slots that follow each other
    compress_seq_offsets  (batch * heads,): with it all rows are written, but
                  compress_lens rows from the offset on are replaced by one, their mean
                  in f32. A length of 0 and a negative offset leave all rows

    RuntimeError: another shape, dtype or mode.
    """
    name = "npu_scatter_pa_kv_cache"
    known = cache_mode in (None, "Norm", "PA_NZ")
    check(known, name, f"cache_mode must be Norm or PA_NZ, got {cache_mode!r}")
    told = compress_lens, compress_seq_offsets, seq_lens
    blocks = cache_mode == "PA_NZ"
    scatter(name, "key", key, key_cache, slot_mapping, *told, blocks=blocks)
    scatter(name, "value", value, value_cache, slot_mapping, *told, blocks=blocks)


@npu_operator
def npu_scatter_pa_kv_cache_functional(
    key: Tensor,
    value: Tensor,
    key_cache: Tensor,
    value_cache: Tensor,
    slot_mapping: Tensor,
    *,
    compress_lens: Tensor | None = None,
    compress_seq_offsets: Tensor | None = None,
    seq_lens: Tensor | None = None,
    cache_mode: str | None = "PA_NZ",
) -> tuple[Tensor, Tensor]:
    """npu_scatter_pa_kv_cache into copies of the caches, which it returns. RuntimeError:
    as that operator raises."""
    copies = key_cache.clone(), value_cache.clone()
    torch.ops.npu.npu_scatter_pa_kv_cache(
        key,
        value,
        *copies,
        slot_mapping,
        compress_lens=compress_lens,
        compress_seq_offsets=compress_seq_offsets,
        seq_lens=seq_lens,
        cache_mode=cache_mode,
    )
    return copies


def scatter(
    name: str,
    what: str,
    rows: Tensor,
    cache: Tensor,
    slots: Tensor,
    *told: Tensor | None,
    blocks: bool,
    argument: str = "slot_mapping",
) -> None:
    """Writes rows to the slots of a cache, which is compressed if `told` has tensors:
    compress_lens, compress_seq_offsets and seq_lens. With `blocks` another cache may be in
    FRACTAL_NZ. The operator calls its slots `argument`."""
    check_dtype(slots, name, argument, INTEGERS)
    check_dtype(rows, name, what, CACHED)
    check_dtype(cache, name, f"{what}_cache", (rows.dtype,))
    if any(tensor is not None for tensor in told):
        rows, slots = _compressed(name, what, rows, slots, *told)
        _write_states(name, what, rows, cache, slots, False)
        return
    check(rows.dim() == 3, name, f"{what} must have 3 dimensions, got {rows.dim()}")
    check_shape(slots, name, argument, (rows.shape[0],))
    _write_states(name, what, rows, cache, slots.to(torch.int64), blocks)


def _compressed(
    name: str,
    what: str,
    values: Tensor,
    first: Tensor,
    lens: Tensor | None,
    offsets: Tensor | None,
    seq_lens: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """The rows (number, 1, dim) for a compressed cache, and the slot of each; negative
    slots are left out."""
    check(values.dim() == 4, name, f"{what} must have 4 dimensions, got {values.dim()}")
    batch, length, heads, dim = values.shape
    shapes: tuple[tuple[str, Tensor | None, tuple[Any, ...]], ...] = (
        ("slot_mapping", first, ((batch, heads),)),
        ("compress_lens", lens, ((batch, heads), (batch * heads,))),
        ("seq_lens", seq_lens, ((batch,),)),
        ("compress_seq_offsets", offsets, ((batch * heads,),)),
    )
    for argument, tensor, allowed in shapes:
        check_dtype(tensor, name, argument, INTEGERS)
        check_shape(tensor, name, argument, *allowed)
    both = lens is not None and seq_lens is not None
    check(both, name, "a compressed cache needs compress_lens and seq_lens")
    assert lens is not None and seq_lens is not None
    cut = lens.to(torch.int64).reshape(batch, 1, heads)
    ends = seq_lens.to(torch.int64).reshape(batch, 1, 1)
    slot = first.to(torch.int64).unsqueeze(1)
    numbers = torch.arange(length, device=values.device).reshape(1, -1, 1)
    if offsets is None:
        begins = ends - torch.where(cut > 0, cut, ends)
        kept = (numbers >= begins) & (numbers < ends)
        slots = torch.where(kept, slot + numbers - begins, -1)
        return values.reshape(-1, 1, dim), slots.reshape(-1)
    at = offsets.to(torch.int64).reshape(batch, 1, heads)
    cut = torch.where(at < 0, 0, cut)
    inside = (numbers >= at) & (numbers < at + cut)
    total = (values.to(torch.float32) * inside.unsqueeze(-1)).sum(1)
    mean = (total / cut.squeeze(1).clamp(min=1).unsqueeze(-1)).to(values.dtype)
    later = (numbers >= at + cut) & (cut > 0)
    moved = torch.where(later, numbers - cut + 1, numbers)
    kept = (numbers < ends) & ~inside
    slots = torch.where(kept, slot + moved, -1).reshape(-1)
    of_means = torch.where(cut > 0, slot + at, -1).reshape(-1)
    rows = torch.cat([values.reshape(-1, dim), mean.reshape(-1, dim)]).unsqueeze(1)
    return rows, torch.cat([slots, of_means])


def _write_states(
    name: str, what: str, rows: Tensor, cache: Tensor, slots: Tensor, blocks: bool
) -> None:
    """Writes rows (tokens, heads, dim) to the slots of a cache. With `blocks` it may be
    in FRACTAL_NZ."""
    check(cache.dim() == 4, name, f"{what}_cache must have 4 dimensions")
    plain = tuple(cache.shape[2:]) == tuple(rows.shape[1:])
    last = 32 if rows.element_size() == 1 else 16
    width = rows.shape[1] * rows.shape[2]
    blocked = blocks and cache.shape[3] == last and cache.shape[1] * last == width
    check(
        plain or blocked,
        name,
        f"{what}_cache of shape {tuple(cache.shape)} does not take {what} of"
        f" {tuple(rows.shape)}",
    )
    size = cache.shape[1] if plain else cache.shape[2]
    put_rows(cache if plain else cache.permute(0, 2, 1, 3), rows, slots, size)


def put_rows(cache: Tensor, rows: Tensor, slots: Tensor, size: int) -> None:
    """Writes row i to its slot. A row with a negative slot writes the slot of another
    row, with that row's value."""
    if rows.dtype == torch.float8_e4m3fn:  # PyTorch does not add them
        cache, rows = cache.view(torch.int8), rows.view(torch.int8)
    rows = rows.reshape(rows.shape[0], *cache.shape[2:])
    wanted = slots >= 0
    safe = torch.where(wanted, slots, 0)
    block, place = safe // size, safe % size
    first = (wanted & (slots == 0)).unsqueeze(-1)
    kept = cache[block, place]
    shape = [-1] + [1] * (rows.dim() - 1)
    # Another row may write slot 0. Rows that are left out write the same value to it.
    zero = torch.where(first.reshape(shape), rows, torch.zeros_like(rows)).sum(
        0, dtype=rows.dtype
    )
    stays = torch.where(first.any(), zero.unsqueeze(0), kept)
    updates = torch.where(wanted.reshape(shape), rows, stays)
    cache.index_put_((block, place), updates)
