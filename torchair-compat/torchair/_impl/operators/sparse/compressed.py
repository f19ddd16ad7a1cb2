"""Native sparse attention: blocks of keys become one key each, and attention to these
tells which blocks matter."""

from __future__ import annotations

import torch
from torch import Tensor

from ..caches.paged import put_rows
from ..checks import FLOATS, check, check_dtype, check_shape
from ..definition import npu_operator
from ..schema import Written

_HALF = (torch.float16, torch.bfloat16)
_CHOSEN = 23333.0  # the score of a block that topk_mask chooses


def check_blocks(name: str, **sizes: int) -> None:
    for what, size in sizes.items():
        check(size > 0, name, f"{what} must be positive, got {size}")


def sizes_of(name: str, what: str, ends: list[int] | None, rows: int) -> list[int]:
    """The rows of each sequence, whose ends are these."""
    check(ends is not None, name, f"{what} is needed")
    assert ends is not None
    starts = [0, *ends[:-1]]
    rising = len(ends) > 0 and all(a <= b for a, b in zip(starts, ends))
    text = f"{what} must rise to the number of rows, {rows}, got {list(ends)}"
    check(rising and ends[-1] == rows, name, text)
    return [b - a for a, b in zip(starts, ends)]


def _check_weight(name: str, weight: Tensor, size: int, x: Tensor, heads: int) -> None:
    check_dtype(weight, name, "weight", (x.dtype,))
    check_shape(weight, name, "weight", (size, heads))


@npu_operator
def npu_nsa_compress(
    input: Tensor,
    weight: Tensor,
    compress_block_size: int,
    compress_stride: int,
    *,
    actual_seq_len: list[int] | None = None,
) -> Tensor:
    """The weighted sum of each block of `compress_block_size` tokens of a sequence, one
    block each `compress_stride` tokens; computed in f32.

    input   (t, n, d) float16 or bfloat16
    weight  (compress_block_size, n), in input's dtype
    actual_seq_len  the ends of sequences; a sequence shorter than a block has none

    Returns (blocks, n, d) in input's dtype. RuntimeError: another shape or dtype.
    """
    name, size = "npu_nsa_compress", compress_block_size
    check_dtype(input, name, "input", _HALF)
    text = f"input must have 3 dimensions, got {input.dim()}"
    check(input.dim() == 3, name, text)
    check_blocks(name, compress_block_size=size, compress_stride=compress_stride)
    _check_weight(name, weight, size, input, input.shape[1])
    lengths = sizes_of(name, "actual_seq_len", actual_seq_len, input.shape[0])
    starts: list[int] = []
    begin = 0
    for length in lengths:
        starts += range(begin, begin + length - size + 1, compress_stride)
        begin += length
    first = torch.tensor(starts, dtype=torch.int64, device=input.device)
    rows = first.unsqueeze(1) + torch.arange(size, device=input.device)
    return _weighted(input[rows], weight).to(input.dtype)


def _weighted(blocks: Tensor, weight: Tensor) -> Tensor:
    """The sum over tokens of (..., tokens, n, d), times (tokens, n), in f32."""
    wide = blocks.to(torch.float32) * weight.to(torch.float32).unsqueeze(-1)
    return wide.sum(-3)


@npu_operator
def npu_nsa_compress_infer(
    input: Tensor,
    weight: Tensor,
    slot_mapping: Tensor,
    compress_block_size: int,
    compress_stride: int,
    page_block_size: int,
    *,
    block_table: Tensor | None = None,
    actual_seq_len: list[int] | None = None,
    cache: Written,
) -> Written:
    """Writes the weighted sum of the last `compress_block_size` tokens of each sequence to
    its row of `cache`, if a block ends with the sequence; computed in f32.

    input   (pages, page_block_size, n, d) float16 or bfloat16
    weight  (compress_block_size, n), and cache (rows, n, d), in input's dtype
    slot_mapping    (b,) int32: the row of each sequence
    block_table     (b, pages) int32: the pages of each sequence
    actual_seq_len  the tokens of each sequence

    Returns the cache. RuntimeError: another shape or dtype.
    """
    name, size, page = "npu_nsa_compress_infer", compress_block_size, page_block_size
    check_dtype(input, name, "input", _HALF)
    right = input.dim() == 4 and input.shape[1] == page
    text = f"input must be (pages, {page}, n, d), got {tuple(input.shape)}"
    check(right, name, f"page_block_size: {text}")
    check_blocks(name, compress_block_size=size, compress_stride=compress_stride)
    _check_weight(name, weight, size, input, input.shape[2])
    check(block_table is not None, name, "block_table is needed")
    check(actual_seq_len is not None, name, "actual_seq_len is needed")
    assert block_table is not None and actual_seq_len is not None
    batch = slot_mapping.shape[0]
    for what, table in (("slot_mapping", slot_mapping), ("block_table", block_table)):
        check_dtype(table, name, what, (torch.int32,))
    check_shape(slot_mapping, name, "slot_mapping", (batch,))
    check_shape(block_table, name, "block_table", (batch, block_table.shape[-1]))
    text = (
        f"actual_seq_len must have {batch} numbers that {block_table.shape[-1]} pages"
    )
    fits = all(0 <= n <= block_table.shape[-1] * page for n in actual_seq_len)
    fits = fits and len(actual_seq_len) == batch
    check(fits, name, f"{text} of {page} tokens hold, got {list(actual_seq_len)}")
    check_dtype(cache, name, "cache", (input.dtype,))
    check_shape(cache, name, "cache", (cache.shape[0], *input.shape[2:]))
    ends = torch.tensor(actual_seq_len, dtype=torch.int64, device=input.device)
    tokens = (ends - size).unsqueeze(1) + torch.arange(size, device=input.device)
    pages = block_table.to(torch.int64).gather(1, tokens.clamp(min=0) // page)
    found = input[pages.clamp(min=0), tokens.clamp(min=0) % page]
    whole = (ends >= size) & ((ends - size) % compress_stride == 0)
    slots = torch.where(whole, slot_mapping.to(torch.int64), -1)
    values = _weighted(found, weight).to(cache.dtype)
    put_rows(cache.unsqueeze(1), values, slots, 1)
    return cache


@npu_operator
def npu_nsa_compress_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    scale_value: float,
    head_num: int,
    compress_block_size: int,
    compress_stride: int,
    select_block_size: int,
    select_block_count: int,
    *,
    topk_mask: Tensor | None = None,
    atten_mask: Tensor | None = None,
    actual_seq_qlen: list[int] | None = None,
    actual_cmp_seq_kvlen: list[int] | None = None,
    actual_sel_seq_kvlen: list[int] | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """softmax(scale_value query key^T) value of keys of npu_nsa_compress, and the
    `select_block_count` blocks of `select_block_size` tokens whose keys have the largest
    probabilities; computed in f32.

    query       (t1, head_num, d) float; each head of key serves head_num / n of them
    key, value  (t2, n, d) and (t2, n, d2), in query's dtype
    topk_mask   (queries, blocks) bool or uint8: blocks that are chosen first
    atten_mask  (queries, keys) bool or uint8: keys that are hidden
    actual_seq_qlen, actual_cmp_seq_kvlen, actual_sel_seq_kvlen  the ends of the queries, keys
                and blocks of sequences

    Returns (t1, head_num, d2); the numbers of the blocks (t1, n, select_block_count) int32,
    -1 where a sequence has fewer; the largest score and the sum of exponentials of each row,
    (t1, head_num, 8) f32. RuntimeError: another shape or dtype.
    """
    name = "npu_nsa_compress_attention"
    check_heads(name, query, key, value, head_num)
    check_blocks(name, compress_block_size=compress_block_size)
    check_blocks(name, compress_stride=compress_stride)
    check_blocks(name, select_block_count=select_block_count)
    for what, size in (
        ("select_block_size", select_block_size),
        ("compress_block_size", compress_block_size),
    ):
        text = f"{what} must be a multiple of compress_stride, {compress_stride}"
        check(size > 0 and size % compress_stride == 0, name, f"{text}, got {size}")
    for what, mask in (("topk_mask", topk_mask), ("atten_mask", atten_mask)):
        check_dtype(mask, name, what, (torch.bool, torch.uint8))
        right = mask is None or mask.dim() == 2
        check(right, name, f"{what} must have 2 dimensions")
    queries = sizes_of(name, "actual_seq_qlen", actual_seq_qlen, query.shape[0])
    keys = sizes_of(name, "actual_cmp_seq_kvlen", actual_cmp_seq_kvlen, key.shape[0])
    check(actual_sel_seq_kvlen is not None, name, "actual_sel_seq_kvlen is needed")
    ends = list(actual_sel_seq_kvlen or [])
    blocks = sizes_of(name, "actual_sel_seq_kvlen", ends, ends[-1] if ends else 0)
    same = len(queries) == len(keys) == len(blocks)
    text = "actual_seq_qlen, actual_cmp_seq_kvlen and actual_sel_seq_kvlen differ in length"
    check(same, name, text)
    steps = select_block_size // compress_stride, compress_block_size // compress_stride
    found, first, second = [], 0, 0
    for rows, columns, count in zip(queries, keys, blocks):
        own = query[first : first + rows]
        k, v = key[second : second + columns], value[second : second + columns]
        hidden = _part(name, "atten_mask", atten_mask, rows, columns)
        chosen = _part(name, "topk_mask", topk_mask, rows, count)
        made, shares, most, total = attend(own, k, v, scale_value, hidden)
        scores = block_scores(shares, count, *steps)
        best = _best(scores, chosen, select_block_count)
        found.append((made, best, most, total))
        first, second = first + rows, second + columns
    made, best, most, total = (torch.cat(parts) for parts in zip(*found))
    spread = (*most.shape[:2], 8)
    return (
        made.to(query.dtype),
        best,
        most.expand(spread).contiguous(),
        total.expand(spread).contiguous(),
    )


def check_heads(
    name: str, query: Tensor, key: Tensor, value: Tensor, head_num: int
) -> None:
    check_dtype(query, name, "query", FLOATS)
    for what, tensor in (("query", query), ("key", key), ("value", value)):
        check_dtype(tensor, name, what, (query.dtype,))
        text = f"{what} must have 3 dimensions, got {tensor.dim()}"
        check(tensor.dim() == 3, name, text)
    text = f"head_num must be the heads of query, {query.shape[1]}, got {head_num}"
    check(head_num == query.shape[1], name, text)
    check_shape(value, name, "value", (*key.shape[:2], value.shape[2]))
    text = f"key must have heads of {query.shape[2]} elements, got {key.shape[2]}"
    check(key.shape[2] == query.shape[2], name, text)
    fits = key.shape[1] > 0 and head_num % key.shape[1] == 0
    text = f"{head_num} heads of query are no multiple of {key.shape[1]} of key"
    check(fits, name, text)


def _part(
    name: str, what: str, mask: Tensor | None, rows: int, columns: int
) -> Tensor | None:
    if mask is None:
        return None
    fits = mask.shape[0] >= rows and mask.shape[1] >= columns
    text = f"{what} must be at least ({rows}, {columns}), got {tuple(mask.shape)}"
    check(fits, name, text)
    return mask[:rows, :columns].to(torch.bool)


def attend(
    query: Tensor, key: Tensor, value: Tensor, scale: float, hidden: Tensor | None
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The attention (rows, heads, d2), its probabilities (n, group, rows, keys), and the
    largest score and the sum (rows, heads, 1) of each row, in f32. A row that sees no key
    gives 0."""
    rows, heads, _ = query.shape
    groups = key.shape[1]
    q = query.to(torch.float32).unflatten(1, (groups, heads // groups))
    q = q.permute(1, 2, 0, 3)
    k = key.to(torch.float32).permute(1, 2, 0).unsqueeze(1)
    scores = torch.matmul(q, k) * scale
    if hidden is not None:
        scores = scores.masked_fill(hidden, float("-inf"))
    most = scores.amax(-1, keepdim=True)
    powers = (scores - torch.where(most.isinf(), 0.0, most)).exp()
    total = powers.sum(-1, keepdim=True)
    shares = powers / torch.where(total == 0, 1.0, total)
    v = value.to(torch.float32).transpose(0, 1).unsqueeze(1)
    made = torch.matmul(shares, v)
    out, most, total = (
        t.permute(2, 0, 1, 3).reshape(rows, heads, -1) for t in (made, most, total)
    )
    return out, shares, most, total


def block_scores(shares: Tensor, count: int, step: int, width: int) -> Tensor:
    """The scores (rows, n, count) of blocks, from probabilities (n, group, rows, keys): a
    block i has the sum of those of the keys step * (i + 1) - a - b, for each a < `step` and
    b < `width`."""
    keys = shares.shape[-1]
    ends = step * torch.arange(1, count + 1, device=shares.device)
    parts = torch.arange(step + width - 1, device=shares.device)
    # How many pairs (a, b) have this sum.
    times = torch.minimum(parts + 1, step + width - 1 - parts).clamp(
        max=min(step, width)
    )
    back = ends - torch.arange(keys, device=shares.device).unsqueeze(1)
    inside = (back >= 0) & (back < step + width - 1)
    weights = torch.where(inside, times[back.clamp(0, step + width - 2)], 0)
    scores = torch.matmul(shares, weights.to(torch.float32))
    return scores.sum(1).transpose(0, 1)


def _best(scores: Tensor, chosen: Tensor | None, count: int) -> Tensor:
    """The numbers of the blocks with the largest scores, (rows, n, count) int32."""
    if chosen is not None:
        scores = scores.masked_fill(chosen.unsqueeze(1), _CHOSEN)
    order = torch.sort(scores, dim=-1, descending=True, stable=True).indices
    order = order[..., :count]
    missing = count - order.shape[-1]
    return torch.nn.functional.pad(order, (0, missing), value=-1).to(torch.int32)
