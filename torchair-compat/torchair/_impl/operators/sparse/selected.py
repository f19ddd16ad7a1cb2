"""Native sparse attention: attention to the blocks of keys that were chosen."""

from __future__ import annotations

import torch
from torch import Tensor

from ..checks import INTEGERS, check, check_dtype, check_shape
from ..definition import npu_operator
from .compressed import check_blocks, check_heads, sizes_of

_LAYOUTS = ("BSH", "BSND", "TND")


@npu_operator
def npu_nsa_select_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    topk_indices: Tensor,
    scale_value: float,
    head_num: int,
    select_block_size: int,
    select_block_count: int,
    *,
    atten_mask: Tensor | None = None,
    actual_seq_qlen: list[int] | None = None,
    actual_seq_kvlen: list[int] | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """softmax(scale_value query key^T) value, where each token reads the blocks of
    `select_block_size` keys that `topk_indices` names; computed in f32.

    query         (t1, head_num, d) float; each head of key serves head_num / n of them
    key, value    (t2, n, d) and (t2, n, d2), in query's dtype
    topk_indices  (t1, n, select_block_count) int32: the blocks in the token's sequence; -1:
                  none
    atten_mask    (queries, keys) bool: keys of a sequence that are hidden
    actual_seq_qlen, actual_seq_kvlen  the ends of the queries and keys of sequences

    Returns (t1, head_num, d2), and the largest score and the sum of exponentials of each
    row, (t1, head_num, 8) f32. RuntimeError: another shape or dtype.
    """
    name = "npu_nsa_select_attention"
    check_heads(name, query, key, value, head_num)
    check_blocks(name, select_block_size=select_block_size)
    rows, device = query.shape[0], query.device
    check_dtype(topk_indices, name, "topk_indices", (torch.int32,))
    shape = (rows, key.shape[1], select_block_count)
    check_shape(topk_indices, name, "topk_indices", shape)
    queries = sizes_of(name, "actual_seq_qlen", actual_seq_qlen, rows)
    keys = sizes_of(name, "actual_seq_kvlen", actual_seq_kvlen, key.shape[0])
    text = "actual_seq_qlen and actual_seq_kvlen differ in length"
    check(len(queries) == len(keys), name, text)
    table = [
        (count, sum(keys[:number]), place)
        for number, (own, count) in enumerate(zip(queries, keys))
        for place in range(own)
    ]
    told = torch.tensor(table, dtype=torch.int64, device=device).reshape(-1, 3)
    counts, starts, own_place = told.unbind(1)
    places, seen = _places(topk_indices, select_block_size, counts)
    if atten_mask is not None:
        check_dtype(atten_mask, name, "atten_mask", (torch.bool,))
        least = max(queries), max(keys)
        fits = atten_mask.dim() == 2 and all(
            a >= b for a, b in zip(atten_mask.shape, least)
        )
        text = f"atten_mask must be at least {least}, got {tuple(atten_mask.shape)}"
        check(fits, name, text)
        inside = places.clamp(0, least[1] - 1)
        seen = seen & ~atten_mask[own_place[:, None, None], inside]
    rows_of_key = (places + starts[:, None, None]).clamp(0, key.shape[0] - 1)
    heads = torch.arange(key.shape[1], device=device)[:, None]
    found = key[rows_of_key, heads], value[rows_of_key, heads]
    made, _, most, total = attend_rows(query, found[0], found[1], scale_value, seen)
    spread = (rows, head_num, 8)
    most, total = (t.expand(spread).contiguous() for t in (most, total))
    return made.to(query.dtype), most, total


def _places(blocks: Tensor, size: int, counts: Tensor) -> tuple[Tensor, Tensor]:
    """The keys (rows, n, keys) of the blocks, and which of them a sequence has."""
    step = torch.arange(size, device=blocks.device)
    places = (blocks.to(torch.int64).unsqueeze(-1) * size + step).flatten(2)
    chosen = (blocks >= 0).repeat_interleave(size, -1)
    return places, chosen & (places < counts[:, None, None])


def attend_rows(
    query: Tensor, key: Tensor, value: Tensor, scale: float, seen: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The attention (rows, heads, d2) of query (rows, heads, d) to the keys (rows, n, keys,
    d) of each row, its probabilities (rows, n, group, keys), and the largest score and the
    sum (rows, heads, 1), in f32. Values that are not seen do not matter, and a row that
    sees none gives 0."""
    rows, heads, _ = query.shape
    groups, shown = key.shape[1], seen.unsqueeze(-1)
    q = query.to(torch.float32).unflatten(1, (groups, heads // groups))
    k, v = (torch.where(shown, t.to(torch.float32), 0.0) for t in (key, value))
    scores = torch.matmul(q, k.transpose(-1, -2)) * scale
    scores = scores.masked_fill(~seen.unsqueeze(2), float("-inf"))
    most = scores.amax(-1, keepdim=True)
    powers = (scores - torch.where(most.isinf(), 0.0, most)).exp()
    total = powers.sum(-1, keepdim=True)
    shares = powers / torch.where(total == 0, 1.0, total)
    made = torch.matmul(shares, v)
    out, most, total = (t.reshape(rows, heads, -1) for t in (made, most, total))
    return out, shares, most, total


@npu_operator
def npu_nsa_select_attention_infer(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    topk_indices: Tensor,
    scale_value: float,
    head_num: int,
    key_value_head_num: int,
    select_block_size: int,
    select_block_count: int,
    page_block_size: int,
    *,
    layout: str = "BSND",
    atten_mask: Tensor | None = None,
    block_table: Tensor | None = None,
    actual_seq_qlen: list[int] | None = None,
    actual_seq_kvlen: list[int] | None = None,
) -> Tensor:
    """npu_nsa_select_attention of one new token for each sequence, whose keys are in the
    pages of a cache.

    query        (b, 1, head_num, d) for layout BSND, (b, 1, head_num * d) for BSH, (b,
                 head_num, d) for TND
    key, value   (pages, page_block_size, n * d) and (..., n * d2), or (pages,
                 page_block_size, n, d) and (..., n, d2), with n of key_value_head_num
    topk_indices (b, n, select_block_count), or (b, 1, n, select_block_count) int32; -1: none
    block_table  (b, pages) int32
    actual_seq_qlen   the ends of queries: 1, 2, ...; None: the same
    actual_seq_kvlen  the keys of each sequence

    Returns the attention in query's layout. RuntimeError: another shape, dtype or layout.
    """
    name, page = "npu_nsa_select_attention_infer", page_block_size
    check(layout in _LAYOUTS, name, f"layout must be one of {_LAYOUTS}, got {layout!r}")
    check(
        atten_mask is None, name, "atten_mask must be None: a token reads all its keys"
    )
    check_blocks(name, select_block_size=select_block_size, page_block_size=page)
    check_blocks(name, head_num=head_num, key_value_head_num=key_value_head_num)
    batch = query.shape[0]
    rows = one_query(name, query, layout, head_num)
    ends = list(range(1, batch + 1))
    known = actual_seq_qlen is None or list(actual_seq_qlen) == ends
    check(known, name, f"actual_seq_qlen must be {ends}, got {actual_seq_qlen}")
    keys = cache_pages(name, "key", key, page, key_value_head_num)
    values = cache_pages(name, "value", value, page, key_value_head_num)
    check_heads(name, rows, keys.flatten(0, 1), values.flatten(0, 1), head_num)
    check(block_table is not None, name, "block_table is needed")
    check(actual_seq_kvlen is not None, name, "actual_seq_kvlen is needed")
    assert block_table is not None and actual_seq_kvlen is not None
    check_dtype(block_table, name, "block_table", INTEGERS)
    check_shape(block_table, name, "block_table", (batch, block_table.shape[-1]))
    fits = len(actual_seq_kvlen) == batch
    fits = fits and max(actual_seq_kvlen) <= block_table.shape[1] * page
    text = (
        f"actual_seq_kvlen must have {batch} numbers that the pages of block_table hold"
    )
    check(fits, name, f"{text}, got {list(actual_seq_kvlen)}")
    check_dtype(topk_indices, name, "topk_indices", (torch.int32,))
    shape = (key_value_head_num, select_block_count)
    check_shape(topk_indices, name, "topk_indices", (batch, *shape), (batch, 1, *shape))
    counts = torch.tensor(actual_seq_kvlen, dtype=torch.int64, device=query.device)
    chosen = topk_indices.reshape(batch, *shape)
    places, seen = _places(chosen, select_block_size, counts)
    safe = places.clamp(0, block_table.shape[1] * page - 1)
    number = torch.arange(batch, device=query.device)[:, None, None]
    pages = block_table.to(torch.int64)[number, safe // page].clamp(min=0)
    heads = torch.arange(key_value_head_num, device=query.device)[:, None]
    at = pages, safe % page, heads
    made = attend_rows(rows, keys[at], values[at], scale_value, seen)[0].to(query.dtype)
    made = made.flatten(1) if layout == "BSH" else made
    return made if layout == "TND" else made.unsqueeze(1)


def one_query(name: str, query: Tensor, layout: str, heads: int) -> Tensor:
    """The queries (b, heads, d)."""
    rank = 4 if layout == "BSND" else 3
    text = f"query of layout {layout} must have {rank} dimensions, got {query.dim()}"
    check(query.dim() == rank, name, text)
    if layout == "TND":
        return query
    one = query.shape[1] == 1
    check(one, name, f"query must have one token of a sequence, got {query.shape[1]}")
    if layout == "BSND":
        return query.squeeze(1)
    whole = query.shape[2] % heads == 0
    text = f"head_num: rows of {query.shape[2]} elements are no {heads} heads"
    check(whole, name, text)
    return query.squeeze(1).unflatten(-1, (heads, query.shape[2] // heads))


def cache_pages(name: str, what: str, cache: Tensor, page: int, heads: int) -> Tensor:
    """A cache (pages, page, heads, d)."""
    right = cache.dim() in (3, 4) and cache.shape[1] == page
    text = f"{what} must be (pages, {page}, ...) by page_block_size"
    check(right, name, f"{text}, got {tuple(cache.shape)}")
    if cache.dim() == 3:
        whole = cache.shape[2] % heads == 0
        text = f"{what} has rows of {cache.shape[2]} elements, which"
        check(whole, name, f"{text} are no {heads} heads (key_value_head_num)")
        return cache.unflatten(-1, (heads, cache.shape[2] // heads))
    text = f"key_value_head_num must be the heads of {what}, {cache.shape[2]}"
    check(cache.shape[2] == heads, name, f"{text}, got {heads}")
    return cache
