"""npu_fusion_attention: attention that also returns maxima and sums, for training code.

After Ascend's API reference of torch_npu, page npu_fusion_attention."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from .library import FLOATS, check, check_dtype, check_shape

__all__ = ["npu_fusion_attention"]

_NAME = "npu_fusion_attention"
# The order of dimensions that makes (batch, heads, length, width) of a layout.
_ORDERS = {"BSND": (0, 2, 1, 3), "BNSD": (0, 1, 2, 3)}
_JOINED = {"BSH": (0, 2, 1, 3), "SBH": (1, 2, 0, 3)}
_FOREVER = 2147483647

Result = tuple[Tensor, Tensor, Tensor, Tensor, int, int, int]


def npu_fusion_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    head_num: int,
    input_layout: str,
    pse: Tensor | None = None,
    padding_mask: None = None,
    atten_mask: Tensor | None = None,
    scale: float = 1.0,
    keep_prob: float = 1.0,
    pre_tockens: int = _FOREVER,
    next_tockens: int = _FOREVER,
    inner_precise: int = 0,
    prefix: None = None,
    actual_seq_qlen: Sequence[int] | None = None,
    actual_seq_kvlen: Sequence[int] | None = None,
    sparse_mode: int = 0,
    gen_mask_parallel: bool = True,
    sync: bool = False,
    softmax_layout: str = "",
    sink: Tensor | None = None,
    dropout_mask: Tensor | None = None,
    seed: int = 0,
    offset: int = 0,
) -> Result:
    """softmax(mask(scale (query key^T + pse))) value, computed in f32.

    input_layout  BSH, SBH, BSND, BNSD, or TND with sums of lengths in `actual_seq_qlen`
                  and `actual_seq_kvlen`
    atten_mask    bool or uint8: true where nothing is read
    sparse_mode   0 and 1 take that mask, 0 also the band of `pre_tockens` and
                  `next_tockens`; 2 and 3 are causal, from the upper left and the lower
                  right; 4 is that band around the lower right
    sink          (head_num,) f32: logits that take part in the softmax of each row

    `seed` and `offset` change nothing.

    Returns the result in the layout and dtype of query; maxima and sums of the softmax
    (batch, heads, length, 8) f32; an empty tensor; and three zeros. A row that reads
    nothing is 0. RuntimeError: shapes or dtypes that do not fit together.
    NotImplementedError: dropout, padding_mask, prefix and other modes.
    """
    _refuse(keep_prob, padding_mask, prefix, sparse_mode)
    if dropout_mask is not None:
        raise NotImplementedError(
            f"{_NAME}: dropout_mask must be None, got {tuple(dropout_mask.shape)}"
        )
    known = softmax_layout in ("", "TND")
    check(known, _NAME, f"softmax_layout must be TND or empty, got {softmax_layout!r}")
    check_dtype(sink, _NAME, "sink", (torch.float32,))
    check_shape(sink, _NAME, "sink", (head_num,))
    for name, tensor in (("query", query), ("key", key), ("value", value)):
        check_dtype(tensor, _NAME, name, (query.dtype,) if name != "query" else FLOATS)
    band = (sparse_mode, pre_tockens, next_tockens)
    if input_layout == "TND":
        return _of_sequences(
            (query, key, value),
            _lengths("actual_seq_qlen", actual_seq_qlen, query),
            _lengths("actual_seq_kvlen", actual_seq_kvlen, key),
            *(pse, atten_mask, scale, band, sink),
        )
    parts = [_heads(t, head_num, query, input_layout) for t in (query, key, value)]
    out, top, total = _attend(parts, pse, atten_mask, scale, band, sink)
    out = _back(out, input_layout).to(query.dtype)
    return out, *_eight(top, total), query.new_empty(0), 0, 0, 0


def _refuse(keep_prob: float, padding: object, prefix: object, mode: int) -> None:
    wrong = {
        f"keep_prob={keep_prob} (dropout)": keep_prob != 1,
        "padding_mask": padding is not None,
        "prefix": prefix is not None,
        f"sparse_mode={mode}": mode not in range(5),
    }
    for what, is_wrong in wrong.items():
        if is_wrong:
            raise NotImplementedError(f"{_NAME}: {what} is not supported on this host")


def _heads(tensor: Tensor, head_num: int, query: Tensor, layout: str) -> Tensor:
    """The tensor as (batch, heads, length, width)."""
    known = layout in _ORDERS or layout in _JOINED
    check(known, _NAME, f"no such input_layout: {layout!r}")
    dims = 4 if layout in _ORDERS else 3
    check(tensor.dim() == dims, _NAME, f"{layout} needs {dims} dimensions")
    if layout in _ORDERS:
        return tensor.permute(_ORDERS[layout])
    width = query.shape[-1] // head_num
    fits = width * head_num == query.shape[-1] and tensor.shape[-1] % width == 0
    check(
        fits, _NAME, f"head_num {head_num} does not split a width of {tensor.shape[-1]}"
    )
    return tensor.unflatten(-1, (-1, width)).permute(_JOINED[layout])


def _back(out: Tensor, layout: str) -> Tensor:
    if layout in _ORDERS:
        return out.permute(_ORDERS[layout])
    order = (0, 2, 1, 3) if layout == "BSH" else (2, 0, 1, 3)
    return out.permute(order).flatten(-2)


def _attend(
    parts: Sequence[Tensor],
    pse: Tensor | None,
    mask: Tensor | None,
    scale: float,
    band: tuple[int, int, int],
    sink: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor]:
    """The attention (batch, heads, length, width), and maxima and sums with a width of
    1."""
    query, key, value = (part.to(torch.float32) for part in parts)
    groups, rest = divmod(query.shape[1], key.shape[1])
    check(rest == 0, _NAME, f"{key.shape[1]} heads of key, {query.shape[1]} of query")
    key, value = (t.repeat_interleave(groups, 1) for t in (key, value))
    scores = query @ key.transpose(-1, -2)
    if pse is not None:
        scores = scores + pse.to(torch.float32)
    scores = scores * scale
    hidden = _hidden(mask, scores, *band)
    if hidden is not None:
        scores = scores.masked_fill(hidden, -torch.inf)
    top = scores.amax(-1, keepdim=True)
    if sink is not None:
        sink = sink.reshape(1, -1, 1, 1)
        top = torch.maximum(top, sink)
    top = torch.where(top == -torch.inf, 0.0, top)
    chances = (scores - top).exp()
    total = chances.sum(-1, keepdim=True)
    if sink is not None:
        total = total + (sink - top).exp()
    shares = chances / torch.where(total == 0, 1.0, total)
    return shares @ value, top, total


def _hidden(
    mask: Tensor | None, scores: Tensor, mode: int, before: int, after: int
) -> Tensor | None:
    """The elements of scores (..., rows, columns) that are not read."""
    if mode in (0, 1) and mask is None:
        return None
    narrow = min(before, after) < _FOREVER
    if mode == 1 or (mode == 0 and not narrow):
        return mask.to(torch.bool) if mask is not None else None
    rows, columns = scores.shape[-2:]
    shift = 0 if mode in (0, 2) else columns - rows
    row = torch.arange(rows, device=scores.device).unsqueeze(-1) + shift
    column = torch.arange(columns, device=scores.device)
    if mode in (2, 3):
        return column > row
    outside = (column > row + after) | (column < row - before)
    if mode == 0 and mask is not None:
        return outside | mask.to(torch.bool)
    return outside


def _eight(*numbers: Tensor) -> list[Tensor]:
    return [n.expand(*n.shape[:-1], 8).contiguous() for n in numbers]


def _lengths(name: str, sums: Sequence[int] | None, tensor: Tensor) -> list[int]:
    check(sums is not None, _NAME, f"TND needs {name}")
    assert sums is not None
    ends = [int(end) for end in sums]
    lengths = [end - start for start, end in zip([0, *ends], ends)]
    right = min(lengths, default=0) >= 0 and ends[-1:] == [tensor.shape[0]]
    check(right, _NAME, f"{name} {ends} does not split {tensor.shape[0]} tokens")
    return lengths


def _of_sequences(
    tensors: Sequence[Tensor],
    queries: list[int],
    keys: list[int],
    pse: Tensor | None,
    mask: Tensor | None,
    scale: float,
    band: tuple[int, int, int],
    sink: Tensor | None,
) -> Result:
    check(len(queries) == len(keys), _NAME, "as many lengths of query as of key")
    check(pse is None, _NAME, "TND with pse is not supported")
    sizes = (queries, keys, keys)
    split = [t.split(lengths) for t, lengths in zip(tensors, sizes)]
    made = []
    for parts in zip(*split):
        inner = [part.transpose(0, 1).unsqueeze(0) for part in parts]
        own = mask
        if mask is not None and band[0] in (0, 1):
            own = mask[..., : parts[0].shape[0], : parts[1].shape[0]]
        made.append(_attend(inner, None, own, scale, band, sink))
    out, top, total = (
        torch.cat([part.squeeze(0).transpose(0, 1) for part in parts])
        for parts in zip(*made)
    )
    query = tensors[0]
    return out.to(query.dtype), *_eight(top, total), query.new_empty(0), 0, 0, 0
