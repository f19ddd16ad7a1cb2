"""Decomposes the operators that `torch.nn.TransformerEncoderLayer` and
`torch.nn.MultiheadAttention` call instead of their parts when no gradients are needed:
Anabranch's kernels fuse the parts better than PyTorch's own kernels do.

The formulas are those of PyTorch's `transformer_encoder_layer_forward` and
`native_multi_head_attention_cpu`."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

aten = torch.ops.aten

# Kinds of masks: pairs of positions, or keys of each sequence, or both.
PAIRS, KEYS = 0, 1


def decompositions() -> dict[Any, Callable[..., Any]]:
    return {
        aten._native_multi_head_attention.default: _attention,
        aten._transformer_encoder_layer_fwd.default: _encoder_layer,
    }


def _projected(
    query: Tensor, key: Tensor, value: Tensor, weight: Tensor, bias: Tensor
) -> tuple[Tensor, ...]:
    """The three operands of attention, each (batch, length, width)."""
    if query is key and key is value:
        return functional.linear(query, weight, bias).chunk(3, -1)
    weights, biases = weight.chunk(3), bias.chunk(3)
    return tuple(map(functional.linear, (query, key, value), weights, biases))


def _masked(scores: Tensor, mask: Tensor, kind: int | None) -> Tensor:
    """(batch, heads, queries, keys) scores, minus infinity where the mask is true."""
    mask = mask.to(torch.bool)
    if kind == KEYS:
        mask = mask[:, None, None, :]
    elif kind == PAIRS:
        mask = mask[None, None]
    return scores.masked_fill(mask, -math.inf)


def _attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim: int,
    num_head: int,
    qkv_weight: Tensor,
    qkv_bias: Tensor,
    proj_weight: Tensor,
    proj_bias: Tensor,
    mask: Tensor | None = None,
    need_weights: bool = True,
    average_attn_weights: bool = True,
    mask_type: int | None = None,
) -> Any:
    if query.is_nested or query.ndim != 3:
        return NotImplemented
    operands = _projected(query, key, value, qkv_weight, qkv_bias)
    split = [part.unflatten(-1, (num_head, -1)).transpose(1, 2) for part in operands]
    weights = None
    if mask is None and not need_weights:
        found = functional.scaled_dot_product_attention(*split)
    else:
        width = embed_dim // num_head
        scores = (split[0] * width**-0.5) @ split[1].transpose(-2, -1)
        if mask is not None:
            scores = _masked(scores, mask, mask_type)
        weights = scores.softmax(-1)
        found = weights @ split[2]
        if need_weights and average_attn_weights:
            weights = weights.mean(1)
    joined = found.transpose(1, 2).flatten(2)
    return functional.linear(joined, proj_weight, proj_bias), weights


def _encoder_layer(
    src: Tensor,
    embed_dim: int,
    num_heads: int,
    qkv_weight: Tensor,
    qkv_bias: Tensor,
    proj_weight: Tensor,
    proj_bias: Tensor,
    use_gelu: bool,
    norm_first: bool,
    eps: float,
    norm_weight_1: Tensor,
    norm_bias_1: Tensor,
    norm_weight_2: Tensor,
    norm_bias_2: Tensor,
    ffn_weight_1: Tensor,
    ffn_bias_1: Tensor,
    ffn_weight_2: Tensor,
    ffn_bias_2: Tensor,
    mask: Tensor | None = None,
    mask_type: int | None = None,
) -> Any:
    if src.is_nested or src.ndim != 3:
        return NotImplemented

    def norm(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return functional.layer_norm(x, (embed_dim,), weight, bias, eps)

    def attend(x: Tensor) -> Tensor:
        projections = qkv_weight, qkv_bias, proj_weight, proj_bias
        sizes = embed_dim, num_heads
        return _attention(
            x, x, x, *sizes, *projections, mask, need_weights=False, mask_type=mask_type
        )[0]

    def feed_forward(x: Tensor) -> Tensor:
        inner = functional.linear(x, ffn_weight_1, ffn_bias_1)
        inner = functional.gelu(inner) if use_gelu else inner.relu()
        return functional.linear(inner, ffn_weight_2, ffn_bias_2)

    first, second = (norm_weight_1, norm_bias_1), (norm_weight_2, norm_bias_2)
    if norm_first:
        x = src + attend(norm(src, *first))
        return x + feed_forward(norm(x, *second))
    x = norm(src + attend(src), *first)
    return norm(x + feed_forward(x), *second)
