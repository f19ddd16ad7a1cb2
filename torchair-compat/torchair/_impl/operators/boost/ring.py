"""npu_ring_mla: the attention of latent keys, of which a ring of ranks holds parts."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..attention.fused_infer import attend
from ..attention.update import merged
from ..checks import check, check_dtype, check_shape
from ..definition import atb_operator, writing
from .attention import ends

# What each mode may be; the first is what None means.
_MODES = {
    "kernel_type": ("kernel_type_high_precision", "kernel_type_default"),
    "mask_type": ("no_mask", "mask_type_triu"),
    "input_layout": ("type_bsnd",),
    "calc_type": ("calc_type_first_ring", "calc_type_default"),
}


@writing("output", "softmax_lse")
@atb_operator
def npu_ring_mla(
    q_nope: Tensor,
    q_rope: Tensor,
    k_nope: Tensor,
    k_rope: Tensor,
    value: Tensor,
    mask: Tensor,
    seqlen: Tensor,
    head_num: int,
    kv_head_num: int,
    *,
    pre_out: Tensor | None = None,
    prev_lse: Tensor | None = None,
    qk_scale: float = 1,
    kernel_type: str | None = None,
    mask_type: str | None = None,
    input_layout: str | None = None,
    calc_type: str | None = None,
) -> tuple[Tensor, Tensor]:
    """softmax(qk_scale [q_nope, q_rope] [k_nope, k_rope]^T) value of packed sequences, and
    its log-sum-exp, joined with those of other keys.

    q_nope, q_rope  (t, head_num, d) and (t, head_num, r): floats
    k_nope, k_rope  (k, kv_head_num, d) and (k, kv_head_num, r)
    value       (k, kv_head_num, v)
    seqlen      (b,): the tokens and the keys of each sequence; or (2, b): first the
                tokens, then the keys
    mask_type   "no_mask", or "mask_type_triu": a token sees the keys up to its own, the
                last token and the last key being the same. `mask` has that triangle,
                of which nothing is read
    calc_type   "calc_type_first_ring", or "calc_type_default": the result is joined with
                `pre_out` (t, head_num, v) and `prev_lse` (head_num, t)
    kernel_type, input_layout  choose among an NPU's kernels

    Returns (t, head_num, v) in q_nope's dtype, and (head_num, t) f32. RuntimeError,
    ValueError: another shape, dtype, mode or length.
    """
    name = "npu_ring_mla"
    given = dict(zip(_MODES, (kernel_type, mask_type, input_layout, calc_type)))
    modes = {}
    for what, known in _MODES.items():
        modes[what] = given[what] or known[0]
        text = f"{what} must be one of {known}, got {given[what]!r}"
        check(modes[what] in known, name, text)
    for what, tensor in (("q_nope", q_nope), ("k_nope", k_nope), ("value", value)):
        check(tensor.dim() == 3, name, f"{what} must have 3 dimensions")
        check_dtype(tensor, name, what, (q_nope.dtype,))
    tokens, keys = q_nope.shape[0], k_nope.shape[0]
    for what, tensor, count, heads in (
        ("q_nope", q_nope, tokens, head_num),
        ("q_rope", q_rope, tokens, head_num),
        ("k_nope", k_nope, keys, kv_head_num),
        ("k_rope", k_rope, keys, kv_head_num),
        ("value", value, keys, kv_head_num),
    ):
        check_shape(tensor, name, what, (count, heads, tensor.shape[-1]))
    joins = modes["calc_type"] == "calc_type_default"
    text = "calc_type_default needs pre_out and prev_lse"
    check(not joins or None not in (pre_out, prev_lse), name, text)
    options: dict[str, Any] = {
        "num_heads": head_num,
        "num_key_value_heads": kv_head_num,
        "scale": qk_scale,
        "input_layout": "TND",
        "query_rope": q_rope,
        "key_rope": k_rope,
        "softmax_lse_flag": True,
        "sparse_mode": 3 if modes["mask_type"] == "mask_type_triu" else 0,
    }
    options |= _lengths(name, seqlen)
    out, sums = attend(q_nope, k_nope, value, options, name)
    lse = sums.squeeze(-1).t()
    if joins:
        assert pre_out is not None and prev_lse is not None
        check_shape(pre_out, name, "pre_out", tuple(out.shape))
        check_shape(prev_lse, name, "prev_lse", tuple(lse.shape))
        check_dtype(prev_lse, name, "prev_lse", (torch.float32,))
        both = [out, pre_out], [sums.squeeze(-1), prev_lse.t()]
        out, total = merged(*both)
        lse = total.t()
    return out.to(q_nope.dtype), lse.contiguous()


def _lengths(name: str, seqlen: Tensor) -> dict[str, Any]:
    right = seqlen.dim() == 1 or (seqlen.dim() == 2 and seqlen.shape[0] == 2)
    text = f"seqlen must be (b,) or (2, b), got {tuple(seqlen.shape)}"
    check(right, name, text)
    queries, keys = (seqlen, seqlen) if seqlen.dim() == 1 else seqlen
    return {
        "actual_seq_lengths": ends(name, "seqlen", queries),
        "actual_seq_lengths_kv": ends(name, "seqlen", keys),
    }
