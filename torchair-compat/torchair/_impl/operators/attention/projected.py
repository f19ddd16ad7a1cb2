"""npu_multi_head_attention: attention with the projections around it.

After Ascend's API reference of torch_npu, page npu_multi_head_attention, and op-plugin's
test of it, which rounds each step to f16."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from ..checks import check, check_dtype, check_shape
from ..definition import npu_operator


@npu_operator
def npu_multi_head_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    query_weight: Tensor,
    key_weight: Tensor,
    value_weight: Tensor,
    attn_mask: Tensor,
    out_proj_weight: Tensor,
    query_bias: Tensor | None,
    key_bias: Tensor | None,
    value_bias: Tensor | None,
    out_proj_bias: Tensor | None,
    dropout_mask: Tensor | None,
    attn_head_num: int,
    attn_dim_per_head: int,
    src_len: int,
    tgt_len: int,
    dropout_prob: float,
    softmax_use_float: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Attention with the projections before and behind it, all f16: the result (b *
    tgt_len, e), the bits of a dropout mask that keeps all, query (scaled), key and value (b,
    heads, length, d), the softmax, f32 if `softmax_use_float`, the same in f16, and the
    attention before the last projection (b * tgt_len, e).

    query, key, value  (b * tgt_len, e), (b * src_len, e) and (b * src_len, e), where e =
                       heads * d
    ..._weight         (e, e), by rows of results; ..._bias  (e,) or
                       (1, e)
    attn_mask          (b, heads, tgt_len, src_len), which is added to the scores
    dropout_mask       has no effect, since dropout_prob is 0

    RuntimeError: another shape or dtype, a number of heads, a width or a length that is no
    multiple of 16, or a dropout, which is a step of training.
    """
    name = "npu_multi_head_attention"
    for what, number in (
        ("attn_head_num", attn_head_num),
        ("attn_dim_per_head", attn_dim_per_head),
        ("src_len", src_len),
        ("tgt_len", tgt_len),
    ):
        text = f"{what} must be a multiple of 16 above 0, got {number}"
        check(number > 0 and number % 16 == 0, name, text)
    text = (
        f"dropout_prob must be 0, got {dropout_prob}: a dropout is a step of training"
    )
    check(dropout_prob == 0, name, text)
    width = attn_head_num * attn_dim_per_head
    text = f"query must be (b * {tgt_len}, {width}), got {tuple(query.shape)}"
    check(query.dim() == 2 and query.shape[0] % tgt_len == 0, name, text)
    batch = query.shape[0] // tgt_len
    rows = batch * src_len
    shapes: tuple[tuple[str, Tensor | None, tuple[int, ...]], ...] = (
        ("query", query, (query.shape[0], width)),
        ("key", key, (rows, width)),
        ("value", value, (rows, width)),
        ("query_weight", query_weight, (width, width)),
        ("key_weight", key_weight, (width, width)),
        ("value_weight", value_weight, (width, width)),
        ("out_proj_weight", out_proj_weight, (width, width)),
        ("attn_mask", attn_mask, (batch, attn_head_num, tgt_len, src_len)),
    )
    for what, tensor, shape in shapes:
        check_dtype(tensor, name, what, (torch.float16,))
        check_shape(tensor, name, what, shape)
    for what, bias in (
        ("query_bias", query_bias),
        ("key_bias", key_bias),
        ("value_bias", value_bias),
        ("out_proj_bias", out_proj_bias),
    ):
        check_dtype(bias, name, what, (torch.float16,))
        check_shape(bias, name, what, (width,), (1, width))

    def heads(x: Tensor, weight: Tensor, bias: Tensor | None, length: int) -> Tensor:
        made = functional.linear(x, weight, bias)
        shape = (batch, length, attn_head_num, attn_dim_per_head)
        return made.view(shape).transpose(1, 2).contiguous()

    q = heads(query, query_weight, query_bias, tgt_len) * attn_dim_per_head**-0.5
    k = heads(key, key_weight, key_bias, src_len)
    v = heads(value, value_weight, value_bias, src_len)
    scores = q @ k.mT + attn_mask
    dtype = torch.float32 if softmax_use_float else torch.float16
    weights = torch.softmax(scores.to(dtype), -1)
    narrow = weights.to(torch.float16, copy=True)
    context = (narrow @ v).transpose(1, 2).reshape(query.shape[0], width)
    made = functional.linear(context, out_proj_weight, out_proj_bias)
    bits = batch * attn_head_num * tgt_len * src_len // 8
    kept = torch.full((bits,), 255, dtype=torch.uint8, device=query.device)
    return made, kept, q, k, v, weights, narrow, context
