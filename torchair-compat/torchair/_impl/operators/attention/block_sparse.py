"""npu_block_sparse_attention: attention of blocks of queries to some blocks of keys.

After Ascend's API reference of torch_npu, page of its name."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from ..checks import check, check_dtype, check_shape
from ..definition import npu_operator

_NAME = "npu_block_sparse_attention"


@npu_operator
def npu_block_sparse_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    block_sparse_mask: Tensor,
    block_shape: list[int],
    *,
    q_input_layout: str = "TND",
    kv_input_layout: str = "TND",
    num_key_value_heads: int = 1,
    scale_value: float = 0.0,
    inner_precise: int = 1,
    actual_seq_lengths: list[int] | None = None,
    actual_seq_lengths_kv: list[int] | None = None,
    softmax_lse_flag: int = 0,
) -> tuple[Tensor, Tensor]:
    """softmax(scale_value q k^T) v over the blocks of keys that the mask has for the block
    of queries. Computed in f32; a query without keys gives 0.

    query                    float16 or bfloat16 (b, n, s, d), or (t, n, d) for TND
    key, value               (b, num_key_value_heads, s2, d), or (t2, num_key_value_heads, d)
    block_sparse_mask        int8 (b, n, ceil(s / block_shape[0]), ceil(s2 / block_shape[1]))
                             of the longest sequences: 0 leaves the block out
    block_shape              queries and keys of a block; a multiple of 128 keys
    q_input_layout           TND or BNSD, and so kv_input_layout
    actual_seq_lengths, actual_seq_lengths_kv  the lengths of sequences, needed for TND
    inner_precise            0 or 1; bfloat16 needs 0

    Returns the attention, and the f32 log-sum-exp of each row with 1 as the last dimension;
    zeros without softmax_lse_flag. RuntimeError: another shape, dtype or option.
    """
    layouts = ("TND", "BNSD")
    text = f"q_input_layout must be one of {layouts}, got {q_input_layout!r}"
    check(q_input_layout in layouts, _NAME, text)
    same = kv_input_layout == q_input_layout
    text = f"kv_input_layout must be {q_input_layout!r}, got {kv_input_layout!r}"
    check(same, _NAME, text)
    check_dtype(query, _NAME, "query", (torch.float16, torch.bfloat16))
    for what, tensor in (("key", key), ("value", value)):
        check_dtype(tensor, _NAME, what, (query.dtype,))
    allowed = (0,) if query.dtype == torch.bfloat16 else (0, 1)
    text = f"inner_precise must be one of {allowed} for {query.dtype}, got"
    check(inner_precise in allowed, _NAME, f"{text} {inner_precise}")
    known = softmax_lse_flag in (0, 1)
    check(known, _NAME, f"softmax_lse_flag must be 0 or 1, got {softmax_lse_flag}")
    parts = _sequences(
        query,
        key,
        value,
        q_input_layout,
        num_key_value_heads,
        actual_seq_lengths,
        actual_seq_lengths_kv,
    )
    _check_mask(query, block_sparse_mask, block_shape, parts)
    made = [
        _attend(q, k, v, block_sparse_mask[place], block_shape, scale_value)
        for place, (q, k, v) in enumerate(parts)
    ]
    if q_input_layout == "TND":
        out, sums = (torch.cat([part[i] for part in made], 1) for i in (0, 1))
        out, sums = out.transpose(0, 1), sums.transpose(0, 1)
    else:
        rows = query.shape[2]
        out, sums = (
            torch.stack([_filled(part[i], rows) for part in made]) for i in (0, 1)
        )
    wanted = sums if softmax_lse_flag == 1 else torch.zeros_like(sums)
    return out.to(query.dtype).contiguous(), wanted.contiguous()


_Part = tuple[Tensor, Tensor, Tensor]


def _sequences(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    layout: str,
    heads: int,
    lengths: list[int] | None,
    key_lengths: list[int] | None,
) -> list[_Part]:
    """Query (n, s, d), key and value of each sequence, without what fills them up."""
    dims = 3 if layout == "TND" else 4
    check(query.dim() == dims, _NAME, f"query must have {dims} dimensions for {layout}")
    for what, tensor in (("key", key), ("value", value)):
        fits = tensor.dim() == dims and tensor.shape[1] == heads
        text = f"{what} must have {dims} dimensions, and {heads} heads (num_key_value_heads)"
        check(fits, _NAME, f"{text}, got {tuple(tensor.shape)}")
    text = f"num_key_value_heads must divide {query.shape[1]} heads, got {heads}"
    check(heads > 0 and query.shape[1] % heads == 0, _NAME, text)
    check_shape(value, _NAME, "value", tuple(key.shape))
    if layout == "BNSD":
        count = query.shape[0]
        places = _lengths("actual_seq_lengths", lengths, count, query.shape[2])
        ends = _lengths("actual_seq_lengths_kv", key_lengths, count, key.shape[2])
        return [
            (query[i, :, :q], key[i, :, :k], value[i, :, :k])
            for i, (q, k) in enumerate(zip(places, ends))
        ]
    for what, given, tensor in (
        ("actual_seq_lengths", lengths, query),
        ("actual_seq_lengths_kv", key_lengths, key),
    ):
        fits = given is not None and sum(given) == tensor.shape[0]
        text = f"{what} must be lengths of {tensor.shape[0]} rows together for TND"
        check(fits, _NAME, f"{text}, got {given}")
    assert lengths is not None and key_lengths is not None
    text = f"actual_seq_lengths_kv must have {len(lengths)} lengths: {key_lengths}"
    check(len(lengths) == len(key_lengths), _NAME, text)
    queries = query.transpose(0, 1).split(lengths, 1)
    pairs = [tensor.transpose(0, 1).split(key_lengths, 1) for tensor in (key, value)]
    return list(zip(queries, *pairs, strict=True))


def _lengths(what: str, given: list[int] | None, count: int, longest: int) -> list[int]:
    if given is None:
        return [longest] * count
    fits = len(given) == count and all(0 <= length <= longest for length in given)
    check(fits, _NAME, f"{what} must be {count} lengths up to {longest}, got {given}")
    return given


def _check_mask(
    query: Tensor, mask: Tensor, block_shape: list[int], parts: list[_Part]
) -> None:
    fits = len(block_shape) >= 2 and min(block_shape[:2]) > 0
    fits = fits and block_shape[1] % 128 == 0
    text = "block_shape must be two sizes, the second a multiple of 128, got"
    check(fits, _NAME, f"{text} {block_shape}")
    check_dtype(mask, _NAME, "block_sparse_mask", (torch.int8,))
    if query.dim() == 4:
        rows, columns = query.shape[2], max(k.shape[1] for _, k, _ in parts)
    else:
        rows = max(q.shape[1] for q, _, _ in parts)
        columns = max(k.shape[1] for _, k, _ in parts)
    least = len(parts), query.shape[1], rows, columns
    fits = mask.dim() == 4 and tuple(mask.shape[:2]) == least[:2]
    fits = fits and mask.shape[2] * block_shape[0] >= rows
    fits = fits and mask.shape[3] * block_shape[1] >= columns
    text = f"block_sparse_mask must cover (b, n, s, s2) {least} in blocks, got"
    check(fits, _NAME, f"{text} {tuple(mask.shape)}")


def _attend(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor, block: list[int], scale: float
) -> tuple[Tensor, Tensor]:
    """The attention (n, s, d) of a sequence in f32, and its log-sum-exp (n, s, 1)."""
    share = q.shape[0] // k.shape[0]
    wide = [t.to(torch.float32).repeat_interleave(share, 0) for t in (k, v)]
    scores = torch.matmul(q.to(torch.float32), wide[0].mT) * scale
    seen = mask != 0
    seen = seen.repeat_interleave(block[0], -2)[:, : q.shape[1]]
    seen = seen.repeat_interleave(block[1], -1)[..., : k.shape[1]]
    scores = scores.masked_fill(~seen, -torch.inf)
    sums = torch.logsumexp(scores, -1, keepdim=True)
    shift = torch.where(sums == -torch.inf, torch.zeros_like(sums), sums)
    return torch.matmul(torch.exp(scores - shift), wide[1]), sums


def _filled(part: Tensor, rows: int) -> Tensor:
    """Rows after the end of a sequence are 0."""
    return functional.pad(part, (0, 0, 0, rows - part.shape[1]))
