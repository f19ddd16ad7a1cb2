"""Latent attention of new tokens to pages of a cache, of the transformer boost library.

After the schemas and tests of Ascend's op-plugin."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any

import torch
from torch import Tensor

from ..attention.fused_infer import attend
from ..checks import check, check_dtype, check_shape
from ..definition import atb_operator_of, atb_overload, writing
from ..schema import Written, arguments_of

_NAME = "npu_multi_head_latent_attention"
# What each mode may be.
_MODES = {
    "mask_type": (None, "undefined"),
    "calc_type": (None, "calc_type_undefined", "calc_type_ring"),
    "cache_mode": (None, "krope_ctkv"),
}


@dataclasses.dataclass(frozen=True)
class _Latent:
    """The arguments of all forms."""

    q_nope: Tensor
    q_rope: Tensor
    ctkv: Tensor
    k_rope: Tensor
    block_tables: Tensor
    context_lens: Annotated[list[int], "SymInt[]"]
    q_headnum: int
    qk_scale: float
    kv_headnum: int
    _: dataclasses.KW_ONLY
    mask: Tensor | None = None
    qseqlen: Annotated[list[int] | None, "SymInt[]?"] = None
    qk_descale: Tensor | None = None
    pv_descale: Tensor | None = None
    mask_type: str | None = None
    calc_type: str | None = None
    cache_mode: str | None = None

    def attend(self) -> tuple[Tensor, Tensor]:
        """The attention (b, heads, d), and the log-sum-exp (b, heads, 1)."""
        self._check_modes()
        self._check_operands()
        options: dict[str, Any] = {
            "num_heads": self.q_headnum,
            "num_key_value_heads": self.kv_headnum,
            "scale": self.qk_scale,
            "input_layout": "BSND",
            "block_table": self.block_tables,
            "actual_seq_lengths_kv": list(self.context_lens),
            "query_rope": self.q_rope.unsqueeze(1),
            "key_rope": self.k_rope.flatten(2),
            "softmax_lse_flag": True,
        }
        keys = self.ctkv.flatten(2)
        out, lse = attend(self.q_nope.unsqueeze(1), keys, keys, options, _NAME)
        shape = self.block_tables.shape[0], self.q_headnum, 1
        return out.squeeze(1), lse.reshape(shape).to(self.q_rope.dtype)

    def _check_modes(self) -> None:
        for what, known in _MODES.items():
            value = getattr(self, what)
            text = f"{what} must be one of {known}, got {value!r}"
            check(value in known, _NAME, text)
        for what in ("mask", "qk_descale", "pv_descale"):
            check(getattr(self, what) is None, _NAME, f"{what} must be None")

    def _check_operands(self) -> None:
        q_nope, q_rope = self.q_nope, self.q_rope
        check_dtype(q_nope, _NAME, "q_nope", (torch.float16, torch.bfloat16))
        rows = self.block_tables.shape[0]
        for what, tensor in (("q_nope", q_nope), ("q_rope", q_rope)):
            check_dtype(tensor, _NAME, what, (q_nope.dtype,))
            check_shape(tensor, _NAME, what, (rows, self.q_headnum, tensor.shape[-1]))
        for what, cache, like in (
            ("ctkv", self.ctkv, q_nope),
            ("k_rope", self.k_rope, q_rope),
        ):
            check_dtype(cache, _NAME, what, (q_nope.dtype,))
            last = self.kv_headnum, like.shape[-1]
            right = cache.dim() == 4 and cache.shape[2:] == last
            text = f"{what} must be (blocks, block_size, {last[0]}, {last[1]})"
            check(right, _NAME, f"{text}, got {tuple(cache.shape)}")
        single = self.qseqlen is None or list(self.qseqlen) == [1] * rows
        text = f"qseqlen must be 1 for each of {rows} sequences: {self.qseqlen}"
        check(single, _NAME, text)


@dataclasses.dataclass(frozen=True)
class _WithSums(_Latent):
    """The arguments of the form that can return the log-sum-exp."""

    return_lse: bool

    def attend(self) -> tuple[Tensor, Tensor]:
        ring = not self.return_lse or self.calc_type == "calc_type_ring"
        text = f"return_lse needs calc_type_ring, got {self.calc_type!r}"
        check(ring, _NAME, text)
        return super().attend()


@dataclasses.dataclass(frozen=True)
class _WithWorkspace(_WithSums):
    _: dataclasses.KW_ONLY
    workspace: Tensor | None = None


@dataclasses.dataclass(frozen=True)
class _Into(_WithWorkspace):
    """The arguments of the form that writes its results."""

    _: dataclasses.KW_ONLY
    output: Written
    lse: Written


@writing("output")
@atb_operator_of(f"{arguments_of(_Latent)} -> Tensor")
def npu_multi_head_latent_attention(*operands: Any, **options: Any) -> Tensor:
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
    return _Latent(*operands, **options).attend()[0]


@atb_overload(_NAME, "lse", f"{arguments_of(_WithWorkspace)} -> (Tensor, Tensor)")
def _with_lse(*operands: Any, **options: Any) -> tuple[Tensor, Tensor]:
    given = _WithWorkspace(*operands, **options)
    out, lse = given.attend()
    return out, lse if given.return_lse else given.q_rope.new_empty(0)


@atb_overload(_NAME, "lse_out", f"{arguments_of(_Into)} -> (Tensor(a!), Tensor(b!))")
def _into_lse(*operands: Any, **options: Any) -> tuple[Tensor, Tensor]:
    given = _Into(*operands, **options)
    made, sums = given.attend()
    check_shape(given.output, _NAME, "output", tuple(made.shape))
    given.output.copy_(made)
    if given.return_lse:
        check_shape(given.lse, _NAME, "lse", tuple(sums.shape))
        given.lse.copy_(sums)
    return given.output, given.lse


@atb_operator_of(f"{arguments_of(_WithSums)} -> Tensor")
def _npu_multi_head_latent_attention_get_workspace(
    *operands: Any, **options: Any
) -> Tensor:
    """An empty tensor: this host needs no memory for npu_multi_head_latent_attention."""
    return _WithSums(*operands, **options).q_nope.new_empty(0)
