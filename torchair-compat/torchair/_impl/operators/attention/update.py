"""Joins the attentions of parts of the keys.

After Ascend's API reference of torch_npu, page npu_attention_update, and of its kernels,
page aclnnRingAttentionUpdateV2."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ..checks import check, check_dtype, check_shape
from ..definition import npu_operator

_MOST = 16  # parts


@npu_operator
def npu_attention_update(
    lse: list[Tensor], local_out: list[Tensor], update_type: int
) -> tuple[Tensor, Tensor]:
    """The sum over i of local_out[i] * exp(lse[i] - m), where m is the log of the sum of
    all exp(lse[i]); computed in f32.

    lse          (rows,) f32 of each part, at most 16
    local_out    (rows, d) float of each part
    update_type  1 returns m too, (rows,) f32; 0 an empty tensor in its place

    Rows that no part has keys of, whose lse are all minus infinity, are zeros.
    RuntimeError: another shape, dtype or mode.
    """
    name = "npu_attention_update"
    known = update_type in (0, 1)
    check(known, name, f"update_type must be 0 or 1, got {update_type}")
    fits = 0 < len(lse) <= _MOST and len(lse) == len(local_out)
    text = f"lse and local_out must both have 1 to {_MOST} parts"
    check(fits, name, f"{text}, got {len(lse)} and {len(local_out)}")
    right = local_out[0].dim() == 2
    check(right, name, f"local_out must have 2 dimensions, got {local_out[0].dim()}")
    check_dtype(local_out[0], name, "local_out")
    for number, (sums, part) in enumerate(zip(lse, local_out)):
        check_dtype(sums, name, f"lse[{number}]", (torch.float32,))
        check_dtype(part, name, f"local_out[{number}]", (local_out[0].dtype,))
        check_shape(part, name, f"local_out[{number}]", tuple(local_out[0].shape))
        check_shape(sums, name, f"lse[{number}]", (part.shape[0],))
    out, total = merged(local_out, lse)
    none = total.new_empty(0)
    return out.to(local_out[0].dtype), total if update_type == 1 else none


def merged(parts: Sequence[Tensor], sums: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """The attentions (..., d) and their log-sum-exps (...), joined, in f32. A part whose
    sum is minus infinity adds nothing."""
    table = torch.stack(list(sums))
    total = torch.logsumexp(table, 0)
    shares = torch.where(table == -torch.inf, 0.0, (table - total).exp())
    made = torch.zeros_like(parts[0], dtype=torch.float32)
    for part, share in zip(parts, shares):
        wide = part.to(torch.float32)
        weight = share.unsqueeze(-1)
        made = made + torch.where(weight == 0, 0.0, wide * weight)
    return made, total


@npu_operator
def npu_ring_attention_update(
    prev_attn_out: Tensor,
    prev_softmax_max: Tensor,
    prev_softmax_sum: Tensor,
    cur_attn_out: Tensor,
    cur_softmax_max: Tensor,
    cur_softmax_sum: Tensor,
    *,
    actual_seq_qlen: Tensor | None = None,
    input_layout: str = "SBH",
    input_softmax_layout: str = "",
) -> tuple[Tensor, Tensor, Tensor]:
    """The attention of two parts of the keys, from that of each, and the largest score and
    the sum of exponentials of each row. Computed in f32.

    prev_attn_out, cur_attn_out  (s, b, n * d), or (t, n, d) for TND: a float
    prev_softmax_max, cur_softmax_max, prev_softmax_sum, cur_softmax_sum  f32 (b, n, s, 8),
        or (t, n, 8) for TND: eight equal numbers of each row
    input_layout  SBH or TND; input_softmax_layout is "" or TND
    actual_seq_qlen  of TND: the ends of sequences, which change no row

    Returns the attention in its dtype, the largest scores and the sums, as given.
    RuntimeError: another shape, dtype or layout.
    """
    name = "npu_ring_attention_update"
    layouts = ("SBH", "TND")
    text = f"input_layout must be one of {layouts}, got {input_layout!r}"
    check(input_layout in layouts, name, text)
    known = input_softmax_layout in ("", "TND")
    check(known, name, f"input_softmax_layout must be TND: {input_softmax_layout!r}")
    packed = input_layout == "TND"
    check(packed or actual_seq_qlen is None, name, "actual_seq_qlen is of TND only")
    check_dtype(prev_attn_out, name, "prev_attn_out")
    check_dtype(cur_attn_out, name, "cur_attn_out", (prev_attn_out.dtype,))
    check_shape(cur_attn_out, name, "cur_attn_out", tuple(prev_attn_out.shape))
    dims = 3 if packed else 4
    fits = prev_softmax_max.dim() == dims and prev_attn_out.dim() == 3
    check(
        fits, name, f"prev_softmax_max must have {dims} dimensions for {input_layout}"
    )
    heads = prev_softmax_max.shape[1]
    first, second = prev_attn_out.shape[:2]
    shape = (first, heads, 8) if packed else (second, heads, first, 8)
    for what, table in (
        ("prev_softmax_max", prev_softmax_max),
        ("prev_softmax_sum", prev_softmax_sum),
        ("cur_softmax_max", cur_softmax_max),
        ("cur_softmax_sum", cur_softmax_sum),
    ):
        check_dtype(table, name, what, (torch.float32,))
        check_shape(table, name, what, shape)
    top = torch.maximum(prev_softmax_max, cur_softmax_max)
    parts = [
        sums * torch.exp(most - top)
        for sums, most in (
            (prev_softmax_sum, prev_softmax_max),
            (cur_softmax_sum, cur_softmax_max),
        )
    ]
    total = parts[0] + parts[1]
    made = torch.zeros((), dtype=torch.float32)
    for out, part in zip((prev_attn_out, cur_attn_out), parts):
        share = (part / total)[..., :1]
        rows = out.to(torch.float32)
        if not packed:
            rows, share = rows.unflatten(-1, (heads, -1)), share.permute(2, 0, 1, 3)
        made = made + rows * share
    return made.reshape(prev_attn_out.shape).to(prev_attn_out.dtype), top, total
