"""Native sparse attention: attention of new tokens to compressed keys in pages.

After Ascend's API reference of torch_npu, page npu_nsa_compress_attention_infer, that of
its kernels, page aclnnNsaCompressAttentionInfer, and the reference of its test, which
chooses three blocks always."""

from __future__ import annotations

import torch
from torch import Tensor

from ..checks import INTEGERS, check, check_dtype, check_shape
from ..definition import npu_operator
from .compressed import block_scores, check_blocks, check_heads
from .selected import attend_rows, cache_pages, one_query

_LAYOUTS = ("TND", "BSND")


@npu_operator
def npu_nsa_compress_attention_infer(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    scale_value: float,
    head_num: int,
    key_value_head_num: int,
    select_block_size: int,
    select_block_count: int,
    page_block_size: int,
    compress_block_size: int,
    compress_stride: int,
    *,
    layout: str = "TND",
    atten_mask: Tensor | None = None,
    block_table: Tensor | None = None,
    topk_mask: Tensor | None = None,
    actual_seq_qlen: list[int] | None = None,
    actual_cmp_seq_kvlen: list[int] | None = None,
    actual_sel_seq_kvlen: list[int] | None = None,
) -> tuple[Tensor, Tensor]:
    """npu_nsa_compress_attention of one new token for each sequence, whose compressed keys
    are in the pages of a cache.

    query        (b, head_num, d) for layout TND, (b, 1, head_num, d) for BSND
    key, value   (pages, page_block_size, n * d) and (..., n * d2), or (pages,
                 page_block_size, n, d) and (..., n, d2), with n of key_value_head_num
    block_table  (b, pages) int32
    actual_cmp_seq_kvlen  the compressed keys of each sequence
    atten_mask, topk_mask, actual_seq_qlen, actual_sel_seq_kvlen  None

    A sequence of k keys has ceil(((k - 1) * compress_stride + compress_block_size) /
    select_block_size) blocks. The first and the last two are always chosen, before those of
    the largest scores.

    Returns the attention in query's layout, and the blocks (b, n, select_block_count) or
    (b, 1, n, select_block_count) int32, -1 where a sequence has fewer. RuntimeError: another
    shape, dtype or layout.
    """
    name, page = "npu_nsa_compress_attention_infer", page_block_size
    for what, given in (
        ("atten_mask", atten_mask),
        ("topk_mask", topk_mask),
        ("actual_seq_qlen", actual_seq_qlen),
        ("actual_sel_seq_kvlen", actual_sel_seq_kvlen),
    ):
        check(given is None, name, f"{what} must be None")
    check(layout in _LAYOUTS, name, f"layout must be one of {_LAYOUTS}, got {layout!r}")
    check_blocks(name, page_block_size=page, compress_stride=compress_stride)
    check_blocks(name, select_block_count=select_block_count)
    check_blocks(name, head_num=head_num, key_value_head_num=key_value_head_num)
    for what, size in (
        ("select_block_size", select_block_size),
        ("compress_block_size", compress_block_size),
    ):
        text = f"{what} must be a multiple of compress_stride, {compress_stride}"
        check(size > 0 and size % compress_stride == 0, name, f"{text}, got {size}")
    rows = one_query(name, query, layout, head_num)
    keys = cache_pages(name, "key", key, page, key_value_head_num)
    values = cache_pages(name, "value", value, page, key_value_head_num)
    check_heads(name, rows, keys.flatten(0, 1), values.flatten(0, 1), head_num)
    check(block_table is not None, name, "block_table is needed")
    assert block_table is not None
    lengths = _lengths(name, actual_cmp_seq_kvlen, block_table, query.shape[0], page)
    most = max(lengths)
    counts = torch.tensor(lengths, dtype=torch.int64, device=query.device)
    places = torch.arange(most, device=query.device)
    pages = block_table[:, : -(-most // page)].to(torch.int64).clamp(min=0)
    own = [
        cache[pages].flatten(1, 2)[:, :most].transpose(1, 2) for cache in (keys, values)
    ]
    seen = (places < counts[:, None]).unsqueeze(1)
    made, shares, _, _ = attend_rows(rows, own[0], own[1], scale_value, seen)
    spans = [(n - 1) * compress_stride + compress_block_size for n in lengths]
    blocks = [-(-span // select_block_size) for span in spans]
    steps = select_block_size // compress_stride, compress_block_size // compress_stride
    scores = block_scores(shares.permute(1, 2, 0, 3), max(blocks), *steps)
    best = _best(scores, blocks, select_block_count)
    made = made.to(query.dtype)
    return (made, best) if layout == "TND" else (made.unsqueeze(1), best.unsqueeze(1))


def _lengths(
    name: str, lengths: list[int] | None, block_table: Tensor, batch: int, page: int
) -> list[int]:
    check(lengths is not None, name, "actual_cmp_seq_kvlen is needed")
    assert lengths is not None
    check_dtype(block_table, name, "block_table", INTEGERS)
    check_shape(block_table, name, "block_table", (batch, block_table.shape[-1]))
    most = block_table.shape[1] * page
    fits = len(lengths) == batch and all(1 <= n <= most for n in lengths)
    text = f"actual_cmp_seq_kvlen must have {batch} numbers from 1 to {most}"
    check(fits, name, f"{text}, which the pages of block_table hold: {list(lengths)}")
    return list(lengths)


def _best(scores: Tensor, blocks: list[int], count: int) -> Tensor:
    """The numbers of the chosen blocks, (rows, n, count) int32, from scores (rows, n,
    most), of which row i has `blocks[i]`."""
    most = scores.shape[-1]
    number = torch.arange(most, device=scores.device)
    own = torch.tensor(blocks, device=scores.device).reshape(-1, 1, 1)
    always = (number == 0) | (number >= own - 2)
    scores = scores.masked_fill(always, float("inf"))
    scores = scores.masked_fill(number >= own, float("-inf"))
    order = torch.sort(scores, dim=-1, descending=True, stable=True).indices[
        ..., :count
    ]
    order = torch.where(torch.arange(order.shape[-1]) < own, order, -1)
    missing = count - order.shape[-1]
    return torch.nn.functional.pad(order, (0, missing), value=-1).to(torch.int32)
