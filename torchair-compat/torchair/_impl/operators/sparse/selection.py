"""npu_gather_selection_kv_cache: brings chosen keys into a small cache.

After the page of that operator in Ascend's inference recipes."""

from __future__ import annotations

import torch
from torch import Tensor

from ..caches.paged import put_rows
from ..checks import check, check_dtype, check_shape
from ..definition import npu_operator
from ..schema import Written

_CACHED = (torch.float16, torch.bfloat16, torch.float32, torch.int8)
_INDEX = (torch.int32,)


@npu_operator
def npu_gather_selection_kv_cache(
    selection_k_rope: Written,
    selection_kv_cache: Written,
    selection_kv_block_table: Tensor,
    selection_kv_block_status: Written,
    selection_topk_indices: Tensor,
    full_k_rope: Tensor,
    full_kv_cache: Tensor,
    full_kv_block_table: Tensor,
    full_kv_actual_seq: Tensor,
    full_q_actual_seq: Tensor,
    *,
    selection_topk_block_size: int = 64,
) -> Tensor:
    """Copies the keys that each token chose to pages of its own, one after the other.

    selection_topk_indices  (b, s, 1, k), or (b * s, 1, k): int32: blocks of
                   `selection_topk_block_size` keys; the first negative one ends the list,
                   and blocks that a token does not see are left out
    full_kv_cache, full_k_rope  (blocks, size, width): floats or int8; int8 has an empty
                   full_k_rope
    full_kv_block_table  (b, pages) int32
    full_kv_actual_seq, full_q_actual_seq  (b,) int32: the keys and the tokens of each
                   sequence; the last token sees all keys, each token before it one less
    selection_kv_cache, selection_k_rope  (blocks, size, width): written
    selection_kv_block_table  (b * s, pages) int32: the pages of each token
    selection_kv_block_status  (..., k + 1) int32, as the indices: written: the blocks that
                   were copied, -1 after them, and last the number of keys

    Returns the number of keys of each token, (b * s,) int32. Tokens without keys keep
    their status. RuntimeError: another shape or dtype.
    """
    name = "npu_gather_selection_kv_cache"
    size, chosen = selection_topk_block_size, selection_topk_indices
    check_dtype(chosen, name, "selection_topk_indices", _INDEX)
    right = chosen.dim() in (3, 4) and chosen.shape[-2] == 1
    text = "selection_topk_indices must be (b, s, 1, k) or (b * s, 1, k)"
    check(right, name, f"{text}, got {tuple(chosen.shape)}")
    count = chosen.shape[-1]
    indices = chosen.reshape(-1, count).to(torch.int64)
    rows, batch = indices.shape[0], full_kv_actual_seq.shape[0]
    fits = batch > 0 and rows % batch == 0
    text = f"selection_topk_indices has {rows} tokens, full_kv_actual_seq {batch}"
    check(fits, name, f"{text} sequences")
    tables = selection_kv_block_table, full_kv_block_table
    for what, tensor, shape in (
        ("selection_kv_block_table", tables[0], (rows, tables[0].shape[-1])),
        ("full_kv_block_table", tables[1], (batch, tables[1].shape[-1])),
        ("full_kv_actual_seq", full_kv_actual_seq, (batch,)),
        ("full_q_actual_seq", full_q_actual_seq, (batch,)),
        ("selection_kv_block_status", selection_kv_block_status, None),
    ):
        check_dtype(tensor, name, what, _INDEX)
        check_shape(tensor, name, what, shape or (*chosen.shape[:-1], count + 1))
    sequence = torch.arange(rows, device=chosen.device) // (rows // batch)
    keys = _seen(full_kv_actual_seq, full_q_actual_seq, sequence, rows // batch)
    kept = (indices >= 0).to(torch.int32).cumprod(-1).to(torch.bool)
    kept = kept & (indices * size < keys.unsqueeze(-1))
    rank = kept.to(torch.int64).cumsum(-1) - 1
    inner = torch.arange(max(size, 1), device=chosen.device)
    places = indices.unsqueeze(-1) * size + inner
    copied = kept.unsqueeze(-1) & (places < keys[:, None, None])
    targets = torch.where(copied, rank.unsqueeze(-1) * size + inner, -1).flatten(1)
    for what, selection, full in (
        ("kv_cache", selection_kv_cache, full_kv_cache),
        ("k_rope", selection_k_rope, full_k_rope),
    ):
        _check_pair(name, what, selection, full, size)
        if full.numel() == 0 and what == "k_rope":
            continue
        found = _read(full, tables[1], sequence, places.flatten(1))
        slots = _slots(tables[0], targets, selection.shape[1])
        put_rows(selection, found, slots.reshape(-1), selection.shape[1])
    total = copied.flatten(1).sum(-1)
    _write_status(selection_kv_block_status, indices, kept, rank, total, keys)
    return total.to(torch.int32)


def _seen(keys: Tensor, queries: Tensor, sequence: Tensor, length: int) -> Tensor:
    """How many keys each token sees, (tokens,)."""
    place = torch.arange(sequence.shape[0], device=keys.device) % length
    own = queries.to(torch.int64)[sequence]
    later = torch.where(place < own, own - 1 - place, 0)
    return (keys.to(torch.int64)[sequence] - later).clamp(min=0)


def _check_pair(
    name: str, what: str, selection: Tensor, full: Tensor, size: int
) -> None:
    check_dtype(full, name, f"full_{what}", _CACHED)
    check_dtype(selection, name, f"selection_{what}", (full.dtype,))
    if full.numel() == 0:
        return
    for which, cache in (("selection", selection), ("full", full)):
        right = cache.dim() == 3 and cache.shape[2] == full.shape[2]
        text = f"{which}_{what} must be (blocks, size, {full.shape[-1]})"
        check(right, name, f"{text}, got {tuple(cache.shape)}")
        fits = size > 0 and cache.shape[1] % size == 0
        text = f"selection_topk_block_size {size} does not divide the {cache.shape[1]}"
        check(fits, name, f"{text} keys of a block of {which}_{what}")


def _read(full: Tensor, table: Tensor, sequence: Tensor, places: Tensor) -> Tensor:
    """The keys (tokens * n, width) at places (tokens, n) of each token's sequence."""
    size = full.shape[1]
    page = (places // size).clamp(0, table.shape[1] - 1)
    block = table.to(torch.int64)[sequence.unsqueeze(-1), page].clamp(min=0)
    return full[block, places % size].flatten(0, 1)


def _slots(table: Tensor, targets: Tensor, size: int) -> Tensor:
    """The slots of the places (tokens, n) of each token's pages; -1 of no place."""
    page = (targets.clamp(min=0) // size).clamp(max=table.shape[1] - 1)
    block = table.to(torch.int64).gather(1, page)
    return torch.where(targets >= 0, block * size + targets % size, -1)


def _write_status(
    status: Tensor,
    indices: Tensor,
    kept: Tensor,
    rank: Tensor,
    total: Tensor,
    keys: Tensor,
) -> None:
    count = indices.shape[1]
    made = torch.full_like(indices[:, :1], -1).expand(-1, count + 1)
    # What was not copied goes to the last place, which then takes the number of keys.
    made = made.scatter(1, torch.where(kept, rank, count), indices)
    made = torch.cat([made[:, :count], total.unsqueeze(-1)], 1).to(torch.int32)
    before = status.reshape(made.shape)
    made = torch.where((keys > 0).unsqueeze(-1), made, before)
    status.copy_(made.reshape(status.shape))
