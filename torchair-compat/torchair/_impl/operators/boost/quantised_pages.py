"""_npu_paged_attention_quant: attention of int8 to pages of an int8 cache.

After the schema and the tests of Ascend's op-plugin."""

from __future__ import annotations

import torch
from torch import Tensor

from ..checks import INTEGERS, check, check_dtype, check_shape, reads_values
from ..definition import atb_operator
from ..schema import Written

_NAME = "_npu_paged_attention_quant"
_ONLINE = 3  # quant_type: a row's own maximum scales its probabilities
_RESULTS = {1: torch.float16, 27: torch.bfloat16}  # by outdata_type
_MOST = 127


@atb_operator
def _npu_paged_attention_quant(
    query: Tensor,
    key_cache: Tensor,
    value_cache: Tensor,
    num_kv_heads: int,
    num_heads: int,
    scale_value: float,
    block_table: Tensor,
    context_lens: Tensor,
    quant_type: int,
    outdata_type: int,
    k_descale: Tensor,
    v_descale: Tensor,
    out: Written,
) -> None:
    """softmax(scale_value k_descale query key^T) value v_descale of one token of each
    sequence, into `out`. Sums of int8 are exact, and probabilities are rounded to 127ths of
    the largest of their row.

    query         (b, num_heads, d) int8
    key_cache, value_cache  (blocks, block_size, num_kv_heads, d) int8
    block_table   (b, pages), and context_lens (b,): the keys of each sequence
    quant_type    3
    outdata_type  1 for float16, 27 for bfloat16, as `out` has
    k_descale, v_descale  (num_heads,) f32

    A sequence without keys gives zeros. RuntimeError: another shape, dtype or length.
    """
    _check(query, key_cache, value_cache, num_kv_heads, num_heads)
    check(quant_type == _ONLINE, _NAME, f"quant_type must be 3, got {quant_type}")
    known = outdata_type in _RESULTS
    check(known, _NAME, f"outdata_type must be 1 or 27, got {outdata_type}")
    check_dtype(out, _NAME, "out", (_RESULTS[outdata_type],))
    check_shape(out, _NAME, "out", (*query.shape[:2], value_cache.shape[3]))
    for what, table in (("k_descale", k_descale), ("v_descale", v_descale)):
        check_dtype(table, _NAME, what, (torch.float32,))
        check_shape(table, _NAME, what, (num_heads,))
    _check_lengths(query, key_cache, block_table, context_lens)
    groups = (num_kv_heads, num_heads // num_kv_heads)
    left = query.unflatten(1, groups).to(torch.int32)
    # (b, heads of keys, keys, d)
    keys, values = (_rows(cache, block_table) for cache in (key_cache, value_cache))
    factor = k_descale.reshape(*groups, 1) * scale_value
    scores = torch.matmul(left, keys.transpose(2, 3)).to(torch.float32) * factor
    places = torch.arange(keys.shape[2], device=keys.device)
    hidden = places >= context_lens.reshape(-1, 1, 1, 1)
    scores = scores.masked_fill(hidden, -torch.inf)
    # The largest probability of a row is 1 before it is divided by the sum.
    parts = torch.exp(scores - scores.amax(-1, keepdim=True))
    parts = torch.where(hidden, 0.0, parts)
    total = parts.sum(-1, keepdim=True)
    steps = (parts * _MOST).round().to(torch.int32)
    made = torch.matmul(steps, values).to(torch.float32)
    made = made * (v_descale.reshape(*groups, 1) / _MOST)
    made = torch.where(total > 0, made / total, 0.0)
    out.copy_(made.flatten(1, 2).to(out.dtype))


def _rows(cache: Tensor, block_table: Tensor) -> Tensor:
    """All rows that a table names, int32 (b, heads, pages * block_size, d)."""
    pages = cache[block_table.to(torch.int64).clamp(0, cache.shape[0] - 1)]
    return pages.flatten(1, 2).transpose(1, 2).to(torch.int32)


def _check(
    query: Tensor, key_cache: Tensor, value_cache: Tensor, kv_heads: int, heads: int
) -> None:
    fits = kv_heads > 0 and heads % kv_heads == 0
    text = f"num_heads {heads} must be a multiple of num_kv_heads {kv_heads}"
    check(fits, _NAME, text)
    check_dtype(query, _NAME, "query", (torch.int8,))
    fits = query.dim() == 3 and query.shape[1] == heads
    text = f"query must have shape (b, {heads}, d), got {tuple(query.shape)}"
    check(fits, _NAME, text)
    for what, cache in (("key_cache", key_cache), ("value_cache", value_cache)):
        check_dtype(cache, _NAME, what, (torch.int8,))
        fits = cache.dim() == 4 and cache.shape[2] == kv_heads
        text = f"{what} must have shape (blocks, block_size, {kv_heads}, d)"
        check(fits, _NAME, f"{text}, got {tuple(cache.shape)}")
    same = key_cache.shape[:2] == value_cache.shape[:2]
    check(same, _NAME, "value_cache must have the blocks of key_cache")
    d = query.shape[2]
    check(key_cache.shape[3] == d, _NAME, f"key_cache must have {d} elements in a row")


def _check_lengths(query: Tensor, cache: Tensor, table: Tensor, lens: Tensor) -> None:
    batch = query.shape[0]
    check_dtype(table, _NAME, "block_table", INTEGERS)
    fits = table.dim() == 2 and table.shape[0] == batch
    text = f"block_table must have shape ({batch}, pages), got {tuple(table.shape)}"
    check(fits, _NAME, text)
    check_dtype(lens, _NAME, "context_lens", INTEGERS)
    check_shape(lens, _NAME, "context_lens", (batch,))
    if not reads_values(lens) or not batch:
        return
    least, longest = int(lens.min()), int(lens.max())
    most = table.shape[1] * cache.shape[1]
    fits = least >= 0 and longest <= most
    text = f"context_lens must be from 0 to {most}, got {lens.tolist()}"
    check(fits, _NAME, text)
    if not reads_values(table):
        return
    used = torch.arange(table.shape[1]) * cache.shape[1] < lens.unsqueeze(1)
    named = table[used]
    fits = bool(((named >= 0) & (named < cache.shape[0])).all())
    check(fits, _NAME, f"block_table must name blocks from 0 to {cache.shape[0] - 1}")
