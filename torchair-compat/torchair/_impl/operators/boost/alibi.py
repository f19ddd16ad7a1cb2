"""Attention of the transformer boost library whose scores depend on distances (ALiBi).

After the schemas and tests of Ascend's op-plugin."""

from __future__ import annotations

from itertools import accumulate
from typing import Annotated, Any

import torch
from torch import Tensor

from ..attention.fused_infer import attend
from ..checks import check, check_dtype, check_shape
from ..definition import atb_operator, writing
from .attention import check_triangle, packed

_NORM, _ALIBI, _CAUSAL_TYPE, _SLOPES, _SQRT = 1, 2, 3, 4, 5  # mask_type
_CAUSAL = 3  # sparse_mode: the last row and the last key of a sequence are one token


@writing("out")
@atb_operator
def _npu_flash_attention_v2(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    seq_len: Annotated[list[int], "SymInt[]"],
    *,
    mask: Tensor | None = None,
    slopes: Tensor | None = None,
    kernel_type: int = 0,
    mask_type: int = 2,
    scale_value: float = 1.0,
    num_heads: int = 0,
    num_kv_heads: int = 0,
) -> Tensor:
    """softmax(scale_value query key^T + bias) value of packed sequences.

    query       (t, num_heads * d) or (t, num_heads, d) float
    key, value  the same of num_kv_heads heads, value with a size of its own
    seq_len     the tokens of each sequence
    mask_type   1: the bias is `mask`, (b, num_heads, s, s), (num_heads, s, s), or with 1 for
                b or num_heads. 2: the same, and attention is causal. 4: causal, and the bias
                is `slopes` (num_heads,) times the distance of token and key; of `mask`
                nothing is read. 5: times the distance's square root
    kernel_type  0 to 2 choose among an NPU's kernels

    The result has query's dimensions. RuntimeError, ValueError: another shape, dtype or
    length.
    """
    name = "_npu_flash_attention_v2"
    known = (_NORM, _ALIBI, _SLOPES, _SQRT)
    check(
        mask_type in known, name, f"mask_type must be one of {known}, got {mask_type}"
    )
    _check_kernel(name, kernel_type)
    lengths = list(seq_len)
    sums = list(accumulate(lengths))
    kv_heads = num_kv_heads or num_heads
    operands = query, key, value
    (q, k, v), options = packed(name, operands, sums, num_heads, kv_heads, scale_value)
    right = bool(sums) and sums[-1] == query.shape[0]
    check(right, name, f"seq_len must sum up to {query.shape[0]} tokens, got {lengths}")
    place = _places(lengths, query.device)
    if mask_type in (_SLOPES, _SQRT):
        bias = _bias(name, slopes, num_heads, place, place, mask_type)
    else:
        bias = _of_mask(name, mask, num_heads, lengths, place)
    options["pse_shift"] = bias.unsqueeze(0)
    if mask_type != _NORM:
        options["sparse_mode"] = _CAUSAL
    made = attend(q, k, v, options, name)[0]
    return made if query.dim() == 3 else made.flatten(1)


@writing("out")
@atb_operator
def _npu_flash_attention_prefix_v2(
    query: Tensor,
    key_cache: Tensor,
    value_cache: Tensor,
    block_table: Tensor,
    mask: Tensor,
    seq_len: Annotated[list[int], "SymInt[]"],
    context_lens: Annotated[list[int], "SymInt[]"],
    *,
    slopes: Tensor | None = None,
    kernel_type: int = 1,
    mask_type: int = 3,
    num_kv_heads: int = 0,
    num_heads: int = 0,
    scale_value: float = 1.0,
) -> Tensor:
    """The causal attention of packed tokens to pages of a cache: (t, num_heads, d).

    query         (t, num_heads, d) float: the `seq_len` newest tokens of each sequence
    key_cache, value_cache  (blocks, block_size, num_kv_heads * d), or with heads of their own
                  dimension
    block_table   (b, pages)
    context_lens  the keys of each sequence, those of its tokens among them
    mask_type     3: nothing is added to scores. 4: `slopes` (num_heads,) times the distance
                  of token and key. 5: times its square root. `mask` is a square, of which nothing is
                  read

    RuntimeError, ValueError: another shape, dtype or length.
    """
    name = "_npu_flash_attention_prefix_v2"
    known = (_CAUSAL_TYPE, _SLOPES, _SQRT)
    check(
        mask_type in known, name, f"mask_type must be one of {known}, got {mask_type}"
    )
    _check_kernel(name, kernel_type)
    check_triangle(name, mask)
    check(query.dim() == 3, name, f"query must have 3 dimensions, got {query.dim()}")
    kv_heads = num_kv_heads or num_heads
    pages = []
    for what, cache in (("key_cache", key_cache), ("value_cache", value_cache)):
        right = cache.dim() == 3 or (cache.dim() == 4 and cache.shape[2] == kv_heads)
        text = f"{what} must be (blocks, block_size, {kv_heads} * d)"
        check(right, name, f"{text}, got {tuple(cache.shape)}")
        pages.append(cache if cache.dim() == 3 else cache.flatten(2))
    new, whole = list(seq_len), list(context_lens)
    right = len(new) == len(whole) == block_table.shape[0]
    right = right and sum(new) == query.shape[0]
    right = right and all(a <= b for a, b in zip(new, whole))
    text = "seq_len must sum up to the tokens, and context_lens be none below"
    check(right, name, f"{text}, for each row of block_table: {new} and {whole}")
    options: dict[str, Any] = {
        "num_heads": num_heads,
        "num_key_value_heads": kv_heads,
        "scale": scale_value,
        "input_layout": "TND",
        "block_table": block_table,
        "actual_seq_lengths": list(accumulate(new)),
        "actual_seq_lengths_kv": whole,
        "sparse_mode": _CAUSAL,
    }
    if mask_type != _CAUSAL_TYPE:
        firsts = [b - a for a, b in zip(new, whole)]
        tokens = _places(new, query.device, firsts)
        span = block_table.shape[1] * pages[0].shape[1]
        keys = torch.arange(len(new) * span, device=query.device) % span
        bias = _bias(name, slopes, num_heads, tokens, keys, mask_type)
        options["pse_shift"] = bias.unsqueeze(0)
    return attend(query, pages[0], pages[1], options, name)[0]


def _check_kernel(name: str, kernel_type: int) -> None:
    check(kernel_type in (0, 1, 2), name, f"kernel_type must be 0 to 2: {kernel_type}")


def _places(
    lengths: list[int], device: torch.device, firsts: list[int] | None = None
) -> Tensor:
    """The place of each token in its sequence, whose first token here is at `firsts`."""
    begins = firsts or [0] * len(lengths)
    parts = [torch.arange(a, a + n, device=device) for a, n in zip(begins, lengths)]
    return torch.cat(parts)


def _bias(
    name: str, slopes: Tensor | None, heads: int, rows: Tensor, keys: Tensor, kind: int
) -> Tensor:
    """(heads, rows, keys): slopes times distances, or their square roots. Keys behind a
    row, which it does not see, have distance 0."""
    check(slopes is not None, name, f"mask_type {kind} needs slopes")
    assert slopes is not None
    check_dtype(slopes, name, "slopes", (torch.float32,))
    check_shape(slopes, name, "slopes", (heads,))
    distance = (rows.unsqueeze(1) - keys).clamp(min=0).to(torch.float32)
    distance = distance.sqrt() if kind == _SQRT else distance
    return slopes[:, None, None] * distance


def _of_mask(
    name: str, mask: Tensor | None, heads: int, lengths: list[int], place: Tensor
) -> Tensor:
    """(heads, t, t), or (1, t, t): the mask at the places of tokens."""
    check(mask is not None, name, "mask_type 1 and 2 need mask")
    assert mask is not None
    check(mask.is_floating_point(), name, f"mask must be floating, got {mask.dtype}")
    table = mask if mask.dim() == 4 else mask.unsqueeze(0)
    right = table.dim() == 4 and table.shape[0] in (1, len(lengths))
    right = right and table.shape[1] in (1, heads)
    right = right and min(table.shape[-2:]) >= max(lengths)
    text = f"mask must be ({len(lengths)}, {heads}, {max(lengths)}, {max(lengths)})"
    check(right, name, f"{text} or more, got {tuple(mask.shape)}")
    counts = torch.tensor(lengths, device=place.device)
    number = torch.arange(len(lengths), device=place.device).repeat_interleave(
        counts, output_size=sum(lengths)
    )
    number = number if table.shape[0] > 1 else torch.zeros_like(number)
    rows = table[number, :, place]
    return rows[..., place].transpose(0, 1)
