"""npu_fused_infer_attention_score: attention in many layouts, over PyTorch's operators.

Every layout becomes (batch, heads, rows, elements).
"""

from __future__ import annotations

import dataclasses
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from anabranch.extension import is_own_trace, is_traced

from ..checks import reads_values
from ..definition import npu_attention
from ..quantisation.integers import unpack_int4
from . import scales as attention_scales
from .masks import visible
from .options import FAR, Options, prefix_length
from .scales import Scales

__all__ = ["attend"]

_KNOWN = {field.name for field in dataclasses.fields(Options)}
# Arguments that do not change the result.
_IGNORED = {"inner_precise"}


def attend(
    query: Tensor, key: Tensor, value: Tensor, options: dict[str, Any], name: str
) -> tuple[Tensor, Tensor]:
    """Computes the operator `name`. ValueError: a wrong argument. NotImplementedError:
    rotary parts of integers."""
    for argument, given in options.items():
        known = _KNOWN | _IGNORED | attention_scales.NAMES
        if argument not in known and given is not None:
            shown = tuple(given.shape) if isinstance(given, Tensor) else given
            raise NotImplementedError(
                f"{name}: {argument} must be None, got {shown}: it is reserved, or for"
                " other processors"
            )
    scales = Scales(**{k: v for k, v in options.items() if k in attention_scales.NAMES})
    used = Options(**{k: v for k, v in options.items() if k in _KNOWN})
    used.check(query, key, name)
    key, value = _unpacked(query, key, value, used, name)
    scales.check(query, key, value, name)
    q, k, v = _operands(query, key, value, used, scales, name)
    _check_padding(q, k, used, name)
    _check_shift(q, k, used.pse_shift, name)
    seen, live = visible(q, k, used, name)
    result, lse = _core(q, k, v, seen, used, scales)
    if live is not None:
        result = torch.where(live[:, None, :, None], result, 0.0)
    dims = used.dims
    out = used.input_layout.partition("_")[2] or dims
    like = query if used.query_rope is None else used.query_rope
    stored = scales.stored(result, like, name)
    return _from_bnsd(stored, out), _lse(lse, dims, query)


def _operands(
    query: Tensor, key: Tensor, value: Tensor, used: Options, scales: Scales, name: str
) -> tuple[Tensor, Tensor, Tensor]:
    """(batch, heads, rows, elements): dequantised, with rotary parts after the others,
    and a key and a value for each head of the query."""
    dims, heads = used.dims, used.num_heads
    kv_heads = used.num_key_value_heads or heads
    q = _to_bnsd(query, dims, heads)
    if scales.dequant_scale_query is not None:
        scale = _of_rows(scales.dequant_scale_query, query, q, used, name)
        q = q.to(torch.float32) * scale
    k = _keys(key, used.key_shared_prefix, used, kv_heads)
    v = _keys(value, used.value_shared_prefix, used, kv_heads)
    paged = scales.unpaged(used.block_table, "T" in dims)
    k, v = paged.dequantised(k, "key", name), paged.dequantised(v, "value", name)
    if used.query_rope is not None and used.key_rope is not None:
        q = torch.cat((q, _to_bnsd(used.query_rope, dims, heads)), -1)
        k = torch.cat((k, _keys(used.key_rope, None, used, kv_heads)), -1)
    if q.shape[-1] != k.shape[-1]:
        raise ValueError(
            f"{name}: heads of query have {q.shape[-1]} elements, those of key"
            f" {k.shape[-1]}"
        )
    if k.dtype != q.dtype or v.dtype != q.dtype:
        q, k, v = (t.to(torch.float32) for t in (q, k, v))
    group = heads // kv_heads
    if group > 1:
        k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    return q, k, v


def _of_rows(
    scale: Tensor, query: Tensor, q: Tensor, used: Options, name: str
) -> Tensor:
    """A factor for each row and head of the query: its shape without the elements of a
    head."""
    shape = query.shape[:-1]
    if used.dims == "BSH":
        shape = (*shape, used.num_heads)
    if scale.numel() != q.shape[0] * q.shape[1] * q.shape[2]:
        raise ValueError(
            f"{name}: dequant_scale_query must have shape {tuple(shape)}, got"
            f" {tuple(scale.shape)}"
        )
    dims = "BSND" if used.dims == "BSH" else used.dims
    table = scale.to(torch.float32).reshape(shape).unsqueeze(-1)
    return _to_bnsd(table, dims, used.num_heads)


def _unpacked(
    query: Tensor, key: Tensor, value: Tensor, used: Options, name: str
) -> tuple[Tensor, Tensor]:
    """Unpacks eight int4 in each int32, as int8."""
    if torch.int32 not in (key.dtype, value.dtype):
        return key, value
    if key.dtype != value.dtype:
        raise ValueError(
            f"{name}: key and value must both be int32 of int4, got {key.dtype} and"
            f" {value.dtype}"
        )
    alone = used.block_table is None and used.kv_padding_size is None
    if query.dtype not in (torch.float16, torch.bfloat16, torch.float32) or not alone:
        raise ValueError(
            f"{name}: keys and values of int4 need a floating query, no block_table and"
            " no kv_padding_size"
        )
    return unpack_int4(key), unpack_int4(value)


def _check_shift(q: Tensor, k: Tensor, shift: Tensor | None, name: str) -> None:
    """ValueError: the shift of scores does not cover them."""
    if shift is None:
        return
    batch, heads, rows = q.shape[:3]
    columns = k.shape[2]
    fits = shift.dim() == 4 and shift.shape[0] in (1, batch)
    fits = fits and shift.shape[1] in (1, heads)
    if not fits or shift.shape[2] < rows or shift.shape[3] < columns:
        raise ValueError(
            f"{name}: pse_shift of {tuple(shift.shape)} does not cover {rows} rows and"
            f" {columns} columns of {heads} heads and {batch} sequences"
        )


def _check_padding(q: Tensor, k: Tensor, used: Options, name: str) -> None:
    """ValueError: a padding without lengths of sequences, or more rows than fit beside
    it."""
    for what, padding, lengths, size in (
        ("query_padding_size", used.query_padding_size, used.actual_seq_lengths, q),
        ("kv_padding_size", used.kv_padding_size, used.actual_seq_lengths_kv, k),
    ):
        if padding is None:
            continue
        elsewhere = used.block_table is not None or used.key_shared_prefix is not None
        if lengths is None or "T" in used.dims or elsewhere:
            raise ValueError(
                f"{name}: {what} needs the lengths of its sequences, a layout with a"
                " batch, and neither a block_table nor a shared prefix"
            )
        known = type(padding) is Tensor and not is_traced()
        if not known or q.shape[2] == 1:
            # A graph does not know the values. One row without keys becomes zeros.
            continue
        longest = max(int(n) for n in lengths)
        first = size.shape[2] - max(int(padding), 0) - longest
        if first < 0:
            raise ValueError(
                f"{name}: {longest} rows do not stand before {what} {int(padding)} of"
                f" {size.shape[2]} rows"
            )


# Layouts


def _to_bnsd(tensor: Tensor, dims: str, heads: int) -> Tensor:
    if dims == "BSH":
        tensor = tensor.unflatten(-1, (heads, tensor.shape[-1] // heads))
        dims = "BSND"
    if dims == "BSND":
        return tensor.transpose(1, 2)
    if dims == "TND":
        return tensor.transpose(0, 1).unsqueeze(0)
    return tensor.unsqueeze(0) if dims in ("NTD", "NSD") else tensor


def _from_bnsd(tensor: Tensor, dims: str) -> Tensor:
    if dims == "BSH":
        return tensor.transpose(1, 2).flatten(2)
    if dims == "BSND":
        return tensor.transpose(1, 2).contiguous()
    if dims == "NBSD":
        return tensor.transpose(0, 1).contiguous()
    if dims == "TND":
        return tensor.squeeze(0).transpose(0, 1).contiguous()
    return tensor.squeeze(0) if dims in ("NTD", "NSD") else tensor


def _keys(tensor: Tensor, prefix: Tensor | None, used: Options, heads: int) -> Tensor:
    dims = used.dims
    if used.block_table is not None:
        found = _paged(tensor, used.block_table, heads)
        # Without a batch, all sequences come one after another.
        return (
            found.transpose(0, 1).flatten(1, 2).unsqueeze(0) if "T" in dims else found
        )
    found = _to_bnsd(tensor, dims, heads)
    if prefix is None:
        return found
    before = _to_bnsd(prefix, dims, heads)[:, :, : prefix_length(used, prefix)]
    return torch.cat((before.expand(found.shape[0], -1, -1, -1), found), 2)


def _paged(blocks: Tensor, table: Tensor, heads: int) -> Tensor:
    """The blocks of a cache in the order of each row of the table. Blocks are (number,
    size, H), (number, N, size, D), or in FRACTAL_NZ (number, N, D / n, size, n)."""
    if blocks.dim() == 5:
        blocks = blocks.transpose(2, 3).flatten(3)
    picked = blocks[table.to(torch.int64).clamp(min=0)]
    if blocks.dim() == 4:
        return picked.transpose(1, 2).flatten(2, 3)
    return _to_bnsd(picked.flatten(1, 2), "BSH", heads)


# The arithmetic


def _core(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    allowed: Tensor | None,
    used: Options,
    scales: Scales,
) -> tuple[Tensor, Tensor | None]:
    def weigh(scores: Tensor) -> tuple[Tensor, Tensor]:
        return _weights(scores * used.scale, allowed, used)

    if q.dtype == torch.int8:
        result, lse = scales.attend(q, k, v, weigh)
    elif k.shape[2] == 0:
        result = q.new_zeros(*q.shape[:3], v.shape[3])
        lse = torch.full_like(result[..., :1], -torch.inf, dtype=torch.float32)
    elif (
        used.pse_shift is None
        and used.learnable_sink is None
        and not used.softmax_lse_flag
        and (allowed is None or _may_be_multiplied(k, v))
    ):
        return _attention(q, k, v, allowed, used.scale), None
    else:
        wide = q.to(torch.float32), k.to(torch.float32), v.to(torch.float32)
        weights, lse = weigh(wide[0] @ wide[1].transpose(-1, -2))
        result = _mixed(weights, wide[2], allowed)
    return result, lse if used.softmax_lse_flag else None


def _attention(
    q: Tensor, k: Tensor, v: Tensor, allowed: Tensor | None, scale: float
) -> Tensor:
    """PyTorch's attention, with zeros in rows that see nothing."""
    if allowed is None:
        return scaled_dot_product_attention(q, k, v, scale=scale)
    hit = None
    if not reads_values(k) and not is_own_trace():
        # The attention of another backend may multiply what the mask hides with zeros.
        finite = k.isfinite().all(-1) & v.isfinite().all(-1)
        hit = (allowed & ~finite.unsqueeze(-2)).any(-1)
        k, v = (torch.where(t.isfinite(), t, 0.0) for t in (k, v))
    result = scaled_dot_product_attention(q, k, v, allowed, scale=scale)
    result = torch.where(allowed.any(-1, keepdim=True), result, 0.0)
    return result if hit is None else torch.where(hit.unsqueeze(-1), torch.nan, result)


def _may_be_multiplied(k: Tensor, v: Tensor) -> bool:
    """Whether PyTorch's attention multiplies keys and values that a mask hides with zeros
    only, or does not read them: they are finite, or a graph's attention skips them."""
    if not reads_values(k):
        return True
    # One number says it: a sum with a NaN or an infinity is not finite.
    return all(bool(t.sum(dtype=torch.float32).isfinite()) for t in (k, v))


def _mixed(weights: Tensor, values: Tensor, allowed: Tensor | None) -> Tensor:
    """weights @ values. Values that are not finite make the rows NaN that see them, and
    no others: zero times NaN would be NaN."""
    if allowed is None:
        return weights @ values
    finite = torch.isfinite(values)
    result = weights @ torch.where(finite, values, 0.0)
    hit = allowed & ~finite.all(-1).unsqueeze(-2)
    return torch.where(hit.any(-1, keepdim=True), torch.nan, result)


def _weights(
    scores: Tensor, allowed: Tensor | None, used: Options
) -> tuple[Tensor, Tensor]:
    """The weights of scores, and the logarithm of their sums."""
    if used.pse_shift is not None:
        shift = used.pse_shift.to(torch.float32)
        scores = scores + shift[..., : scores.shape[-2], : scores.shape[-1]]
    if allowed is not None:
        scores = scores.masked_fill(~allowed, float("-inf"))
    lse = torch.logsumexp(scores, -1, keepdim=True)
    if used.learnable_sink is not None:
        sink = used.learnable_sink.to(torch.float32).reshape(1, -1, 1, 1)
        lse = torch.logaddexp(lse, sink)
    weights = torch.exp(scores - lse)
    if allowed is not None:
        weights = torch.where(allowed, weights, 0.0)
    return weights, lse


def _lse(lse: Tensor | None, dims: str, like: Tensor) -> Tensor:
    if lse is None:
        return torch.zeros(1, dtype=torch.float32, device=like.device)
    if "T" in dims:
        return lse.squeeze(0).transpose(0, 1).contiguous()
    return lse


# The operators

_TENSORS = (
    "Tensor? dequant_scale1=None, Tensor? quant_scale1=None,"
    " Tensor? dequant_scale2=None, Tensor? quant_scale2=None,"
    " Tensor? quant_offset2=None, Tensor? antiquant_scale=None,"
    " Tensor? antiquant_offset=None, Tensor? block_table=None,"
    " Tensor? query_padding_size=None, Tensor? kv_padding_size=None,"
    " Tensor? key_antiquant_scale=None, Tensor? key_antiquant_offset=None,"
    " Tensor? value_antiquant_scale=None, Tensor? value_antiquant_offset=None,"
    " Tensor? key_shared_prefix=None, Tensor? value_shared_prefix=None,"
    " SymInt[]? actual_shared_prefix_len=None, Tensor? query_rope=None,"
    " Tensor? key_rope=None, Tensor? key_rope_antiquant_scale=None,"
)
_NUMBERS = (
    f" int pre_tokens={FAR}, int next_tokens={FAR}, str input_layout='BSH',"
    " int num_key_value_heads=0, int sparse_mode=0, int inner_precise=0,"
    " int block_size=0, int antiquant_mode=0,"
)
_MODES = " int key_antiquant_mode=0, int value_antiquant_mode=0) -> (Tensor, Tensor)"
_SCHEMA = (
    "(Tensor query, Tensor key, Tensor value, *, Tensor? pse_shift=None,"
    " Tensor? atten_mask=None, SymInt[]? actual_seq_lengths=None,"
    f" SymInt[]? actual_seq_lengths_kv=None, {_TENSORS} int num_heads=1,"
    f" float scale=1.0,{_NUMBERS} bool softmax_lse_flag=False,{_MODES}"
)


@npu_attention(_SCHEMA, ("actual_seq_lengths", "actual_seq_lengths_kv"))
def npu_fused_infer_attention_score(
    query: Tensor, key: Tensor, value: Tensor, **options: Any
) -> tuple[Tensor, Tensor]:
    """softmax(scale * Q K^T + pse_shift, under the mask) V, and its log-sum-exp.

    query, key, value  in the layout `input_layout`; key and value of int32 hold eight
                       int4 each
    atten_mask      true where a row does not see a column
    actual_seq_lengths, actual_seq_lengths_kv  lengths of sequences: lists, or tensors,
                    which are data in a graph
    block_table     the blocks of a paged cache, which may be in FRACTAL_NZ: (blocks,
                    heads, D / n, size, n)
    query_padding_size, kv_padding_size  one element: how many rows come after each
                                         sequence
    scales, offsets  for int8, as attention_scales.py says

    The second result is filled only with `softmax_lse_flag`. ValueError: a wrong
    argument. NotImplementedError: rotary parts of integers.
    """
    return attend(query, key, value, options, "npu_fused_infer_attention_score")


# Names of version two that differ.
RENAMED = {
    "num_query_heads": "num_heads",
    "softmax_scale": "scale",
    "actual_seq_qlen": "actual_seq_lengths",
    "actual_seq_kvlen": "actual_seq_lengths_kv",
    "return_softmax_lse": "softmax_lse_flag",
    "dequant_scale_key": "key_antiquant_scale",
    "dequant_offset_key": "key_antiquant_offset",
    "dequant_scale_value": "value_antiquant_scale",
    "dequant_offset_value": "value_antiquant_offset",
    "key_quant_mode": "key_antiquant_mode",
    "value_quant_mode": "value_antiquant_mode",
    "quant_scale_out": "quant_scale2",
    "quant_offset_out": "quant_offset2",
}
_SECOND_SCHEMA = (
    "(Tensor query, Tensor key, Tensor value, *, Tensor? query_rope=None,"
    " Tensor? key_rope=None, Tensor? pse_shift=None, Tensor? atten_mask=None,"
    " SymInt[]? actual_seq_qlen=None, SymInt[]? actual_seq_kvlen=None,"
    " Tensor? block_table=None, Tensor? dequant_scale_query=None,"
    " Tensor? dequant_scale_key=None, Tensor? dequant_offset_key=None,"
    " Tensor? dequant_scale_value=None, Tensor? dequant_offset_value=None,"
    " Tensor? dequant_scale_key_rope=None, Tensor? quant_scale_out=None,"
    " Tensor? quant_offset_out=None, Tensor? quant_scale_p=None,"
    " Tensor? learnable_sink=None, int num_query_heads=1, int num_key_value_heads=0,"
    f" float softmax_scale=1.0, int pre_tokens={FAR}, int next_tokens={FAR},"
    " str input_layout='BSH', int sparse_mode=0, int block_size=0,"
    " int query_quant_mode=0, int key_quant_mode=0, int value_quant_mode=0,"
    " int inner_precise=0, bool return_softmax_lse=False, int? query_dtype=None,"
    " int? key_dtype=None, int? value_dtype=None, int? query_rope_dtype=None,"
    " int? key_rope_dtype=None, int? key_shared_prefix_dtype=None,"
    " int? value_shared_prefix_dtype=None, int? dequant_scale_query_dtype=None,"
    " int? dequant_scale_key_dtype=None, int? dequant_scale_value_dtype=None,"
    " int? dequant_scale_key_rope_dtype=None, int? out_dtype=None) -> (Tensor, Tensor)"
)


@npu_attention(_SECOND_SCHEMA, ("actual_seq_qlen", "actual_seq_kvlen"))
def npu_fused_infer_attention_score_v2(
    query: Tensor, key: Tensor, value: Tensor, **options: Any
) -> tuple[Tensor, Tensor]:
    """npu_fused_infer_attention_score under other names, with `learnable_sink` (heads,),
    logits that take part in the softmax of each row, sparse mode 9, a mask of the newest
    keys, and `dequant_scale_query`, a factor for each row and head of a query of int8.
    After Ascend's API reference of torch_npu, page of its name. Raises ValueError, and
    NotImplementedError for arguments that are reserved."""
    renamed = {RENAMED.get(name, name): value for name, value in options.items()}
    return attend(query, key, value, renamed, "npu_fused_infer_attention_score_v2")
