"""Latent attention of new tokens to pages of a cache, of the transformer boost library.

After the schemas and tests of Ascend's op-plugin."""

from __future__ import annotations

from typing import Annotated, Any

import torch
from torch import Tensor

from ..attention.fused_infer import attend
from ..checks import check, check_dtype, check_shape
from ..definition import atb_operator, atb_overload, writing
from ..schema import Written

_NAME = "npu_multi_head_latent_attention"
# What each mode may be.
_MODES = {
    "mask_type": (None, "undefined"),
    "calc_type": (None, "calc_type_undefined", "calc_type_ring"),
    "cache_mode": (None, "krope_ctkv"),
}
_Lengths = Annotated[list[int], "SymInt[]"]


@writing("output")
@atb_operator
def npu_multi_head_latent_attention(
    q_nope: Tensor,
    q_rope: Tensor,
    ctkv: Tensor,
    k_rope: Tensor,
    block_tables: Tensor,
    context_lens: _Lengths,
    q_headnum: int,
    qk_scale: float,
    kv_headnum: int,
    *,
    mask: Tensor | None = None,
    qseqlen: Annotated[list[int] | None, "SymInt[]?"] = None,
    qk_descale: Tensor | None = None,
    pv_descale: Tensor | None = None,
    mask_type: str | None = None,
    calc_type: str | None = None,
    cache_mode: str | None = None,
) -> Tensor:
    """softmax(qk_scale [q_nope, q_rope] [ctkv, k_rope]^T) ctkv of one token of each
    sequence.

    q_nope, q_rope  (b, q_headnum, d) and (b, q_headnum, r): float16 or bfloat16
    ctkv, k_rope    (blocks, block_size, kv_headnum, d) and (..., r)
    block_tables    (b, pages)
    context_lens    the keys of each sequence
    qseqlen         None, or 1 for each sequence
    mask, mask_type, qk_descale, pv_descale  None
    calc_type       None, or "calc_type_ring"; with a tenth argument `return_lse` the
                    overload `lse` returns the log-sum-exp (b, q_headnum, 1) too, in q_rope's
                    dtype
    cache_mode      None, or "krope_ctkv"

    RuntimeError, ValueError: another shape, dtype, mode or length.
    """
    _check_modes(mask_type, calc_type, cache_mode, mask, qk_descale, pv_descale)
    given = block_tables, context_lens, q_headnum, qk_scale, kv_headnum, qseqlen
    return _attended(q_nope, q_rope, ctkv, k_rope, *given)[0]


@atb_overload(_NAME, "lse")
def _with_lse(
    q_nope: Tensor,
    q_rope: Tensor,
    ctkv: Tensor,
    k_rope: Tensor,
    block_tables: Tensor,
    context_lens: _Lengths,
    q_headnum: int,
    qk_scale: float,
    kv_headnum: int,
    return_lse: bool,
    *,
    mask: Tensor | None = None,
    qseqlen: Annotated[list[int] | None, "SymInt[]?"] = None,
    qk_descale: Tensor | None = None,
    pv_descale: Tensor | None = None,
    mask_type: str | None = None,
    calc_type: str | None = None,
    cache_mode: str | None = None,
    workspace: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    _check_modes(mask_type, calc_type, cache_mode, mask, qk_descale, pv_descale)
    _check_ring(return_lse, calc_type)
    given = block_tables, context_lens, q_headnum, qk_scale, kv_headnum, qseqlen
    out, lse = _attended(q_nope, q_rope, ctkv, k_rope, *given)
    return out, lse if return_lse else q_rope.new_empty(0)


@atb_overload(_NAME, "lse_out")
def _into_lse(
    q_nope: Tensor,
    q_rope: Tensor,
    ctkv: Tensor,
    k_rope: Tensor,
    block_tables: Tensor,
    context_lens: _Lengths,
    q_headnum: int,
    qk_scale: float,
    kv_headnum: int,
    return_lse: bool,
    *,
    mask: Tensor | None = None,
    qseqlen: Annotated[list[int] | None, "SymInt[]?"] = None,
    qk_descale: Tensor | None = None,
    pv_descale: Tensor | None = None,
    mask_type: str | None = None,
    calc_type: str | None = None,
    cache_mode: str | None = None,
    workspace: Tensor | None = None,
    output: Written,
    lse: Written,
) -> tuple[Written, Written]:
    _check_modes(mask_type, calc_type, cache_mode, mask, qk_descale, pv_descale)
    _check_ring(return_lse, calc_type)
    given = block_tables, context_lens, q_headnum, qk_scale, kv_headnum, qseqlen
    made, sums = _attended(q_nope, q_rope, ctkv, k_rope, *given)
    check_shape(output, _NAME, "output", tuple(made.shape))
    output.copy_(made)
    if return_lse:
        check_shape(lse, _NAME, "lse", tuple(sums.shape))
        lse.copy_(sums)
    return output, lse


@atb_operator
def _npu_multi_head_latent_attention_get_workspace(
    q_nope: Tensor,
    q_rope: Tensor,
    ctkv: Tensor,
    k_rope: Tensor,
    block_tables: Tensor,
    context_lens: _Lengths,
    q_headnum: int,
    qk_scale: float,
    kv_headnum: int,
    return_lse: bool,
    *,
    mask: Tensor | None = None,
    qseqlen: Annotated[list[int] | None, "SymInt[]?"] = None,
    qk_descale: Tensor | None = None,
    pv_descale: Tensor | None = None,
    mask_type: str | None = None,
    calc_type: str | None = None,
    cache_mode: str | None = None,
) -> Tensor:
    """An empty tensor: this host needs no memory for npu_multi_head_latent_attention."""
    return q_nope.new_empty(0)


def _check_modes(
    mask_type: str | None,
    calc_type: str | None,
    cache_mode: str | None,
    mask: Tensor | None,
    qk_descale: Tensor | None,
    pv_descale: Tensor | None,
) -> None:
    for what, value in zip(_MODES, (mask_type, calc_type, cache_mode)):
        text = f"{what} must be one of {_MODES[what]}, got {value!r}"
        check(value in _MODES[what], _NAME, text)
    for what, given in (
        ("mask", mask),
        ("qk_descale", qk_descale),
        ("pv_descale", pv_descale),
    ):
        check(given is None, _NAME, f"{what} must be None")


def _check_ring(return_lse: bool, calc_type: str | None) -> None:
    ring = not return_lse or calc_type == "calc_type_ring"
    check(ring, _NAME, f"return_lse needs calc_type_ring, got {calc_type!r}")


def _attended(
    q_nope: Tensor,
    q_rope: Tensor,
    ctkv: Tensor,
    k_rope: Tensor,
    block_tables: Tensor,
    context_lens: list[int],
    heads: int,
    scale: float,
    kv_heads: int,
    qseqlen: list[int] | None,
) -> tuple[Tensor, Tensor]:
    """The attention (b, heads, d), and the log-sum-exp (b, heads, 1)."""
    check_dtype(q_nope, _NAME, "q_nope", (torch.float16, torch.bfloat16))
    rows = block_tables.shape[0]
    for what, tensor in (("q_nope", q_nope), ("q_rope", q_rope)):
        check_dtype(tensor, _NAME, what, (q_nope.dtype,))
        check_shape(tensor, _NAME, what, (rows, heads, tensor.shape[-1]))
    for what, cache, like in (("ctkv", ctkv, q_nope), ("k_rope", k_rope, q_rope)):
        check_dtype(cache, _NAME, what, (q_nope.dtype,))
        right = cache.dim() == 4 and cache.shape[2:] == (kv_heads, like.shape[-1])
        text = f"{what} must be (blocks, block_size, {kv_heads}, {like.shape[-1]})"
        check(right, _NAME, f"{text}, got {tuple(cache.shape)}")
    single = qseqlen is None or list(qseqlen) == [1] * rows
    check(single, _NAME, f"qseqlen must be 1 for each of {rows} sequences: {qseqlen}")
    options: dict[str, Any] = {
        "num_heads": heads,
        "num_key_value_heads": kv_heads,
        "scale": scale,
        "input_layout": "BSND",
        "block_table": block_tables,
        "actual_seq_lengths_kv": list(context_lens),
        "query_rope": q_rope.unsqueeze(1),
        "key_rope": k_rope.flatten(2),
        "softmax_lse_flag": True,
    }
    keys = ctkv.flatten(2)
    out, lse = attend(q_nope.unsqueeze(1), keys, keys, options, _NAME)
    return out.squeeze(1), lse.reshape(rows, heads, 1).to(q_rope.dtype)
