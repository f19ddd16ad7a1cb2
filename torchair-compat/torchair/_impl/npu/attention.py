"""npu_fused_infer_attention_score: attention in many layouts, over PyTorch's operators.

Every layout becomes (batch, heads, rows, elements). One mask says which columns a row
sees: it depends on the sequence and the place of each row and each column. In layouts
without a batch, all sequences come one after another."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from . import attention_scales
from .attention_scales import Scales
from .library import operator, unpack_int4

__all__ = ["attend"]

# The dimensions of each layout; "H" holds heads and elements.
_LAYOUTS = {
    "BSH": "BSH",
    "BSND": "BSND",
    "BNSD": "BNSD",
    "TND": "TND",
    "NTD": "NTD",
    "NSD": "NSD",
    "BNSD_BSND": "BNSD",
    "BSH_BNSD": "BSH",
    "BSND_BNSD": "BSND",
    "NTD_TND": "NTD",
    "BSH_NBSD": "BSH",
    "BSND_NBSD": "BSND",
    "BNSD_NBSD": "BNSD",
    "TND_NTD": "TND",
}
_FAR = 2147483647  # a number of tokens that stands for "no band"

Lengths: TypeAlias = Sequence[int] | Tensor | None


@dataclasses.dataclass
class _Options:
    """The operator's arguments, by the names of version one."""

    pse_shift: Tensor | None = None
    atten_mask: Tensor | None = None
    actual_seq_lengths: Lengths = None
    actual_seq_lengths_kv: Lengths = None
    query_padding_size: Tensor | None = None
    kv_padding_size: Tensor | None = None
    block_table: Tensor | None = None
    key_shared_prefix: Tensor | None = None
    value_shared_prefix: Tensor | None = None
    actual_shared_prefix_len: Lengths = None
    query_rope: Tensor | None = None
    key_rope: Tensor | None = None
    num_heads: int = 1
    scale: float = 1.0
    pre_tokens: int = _FAR
    next_tokens: int = _FAR
    input_layout: str = "BSH"
    num_key_value_heads: int = 0
    sparse_mode: int = 0
    block_size: int = 0
    softmax_lse_flag: bool = False


_KNOWN = {field.name for field in dataclasses.fields(_Options)}
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
            raise NotImplementedError(
                f"{name}: {argument} is for rotary parts of integers, which this host"
                " has not; pass parts that are dequantised"
            )
    scales = Scales(**{k: v for k, v in options.items() if k in attention_scales.NAMES})
    used = _Options(**{k: v for k, v in options.items() if k in _KNOWN})
    _check(query, used, name)
    dims = _LAYOUTS[used.input_layout]
    key, value = _unpacked(query, key, value, used, name)
    scales.check(query, key, value, name)
    heads, kv_heads = used.num_heads, used.num_key_value_heads or used.num_heads
    if used.query_rope is not None and used.key_rope is not None:
        query = _joined(query, used.query_rope, dims, heads)
        key = _joined(key, used.key_rope, dims, kv_heads)
    q = _to_bnsd(query, dims, heads)
    k = _keys(key, used.key_shared_prefix, used, dims, kv_heads)
    v = _keys(value, used.value_shared_prefix, used, dims, kv_heads)
    k, v = scales.dequantised(k, "key", name), scales.dequantised(v, "value", name)
    if k.dtype != q.dtype:
        q = q.to(torch.float32)
    group = heads // kv_heads
    if group > 1:
        k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    _check_padding(q, k, used, dims, name)
    allowed, live = _allowed(q, k, used, dims)
    result, lse = _core(q, k, v, allowed, used, scales)
    if live is not None:
        result = torch.where(live[:, None, :, None], result, 0.0)
    out = used.input_layout.partition("_")[2] or dims
    stored = scales.stored(result, query, name)
    return _from_bnsd(stored, out), _lse(lse, dims, query)


def _check(query: Tensor, used: _Options, name: str) -> None:
    if used.num_heads <= 0:
        raise ValueError(f"{name}: num_heads must be positive, got {used.num_heads}")
    kv = used.num_key_value_heads
    if kv < 0 or (kv and used.num_heads % kv):
        raise ValueError(f"{name}: num_key_value_heads must divide num_heads, got {kv}")
    if used.input_layout not in _LAYOUTS:
        raise ValueError(
            f"{name}: no such input_layout: {used.input_layout!r}; known:"
            f" {', '.join(_LAYOUTS)}"
        )
    dims = _LAYOUTS[used.input_layout]
    if query.dim() != len(dims):
        raise ValueError(
            f"{name}: query must have {len(dims)} dimensions in the layout {dims}, got"
            f" {query.dim()}"
        )
    if used.sparse_mode not in range(5):
        raise ValueError(f"{name}: no such sparse_mode: {used.sparse_mode}")
    if "T" in dims and used.actual_seq_lengths is None:
        raise ValueError(f"{name}: the layout {dims} needs the lengths of sequences")
    prefixes = used.key_shared_prefix, used.value_shared_prefix
    if prefixes == (None, None):
        return
    if None in prefixes or "T" in dims or used.block_table is not None:
        raise ValueError(
            f"{name}: a shared prefix needs keys and values, a layout with a batch, and"
            " no block_table"
        )


def _unpacked(
    query: Tensor, key: Tensor, value: Tensor, used: _Options, name: str
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


def _check_padding(q: Tensor, k: Tensor, used: _Options, dims: str, name: str) -> None:
    """ValueError: a padding without lengths of sequences, or more rows than fit beside
    it."""
    for what, padding, lengths, size in (
        ("query_padding_size", used.query_padding_size, used.actual_seq_lengths, q),
        ("kv_padding_size", used.kv_padding_size, used.actual_seq_lengths_kv, k),
    ):
        if padding is None:
            continue
        elsewhere = used.block_table is not None or used.key_shared_prefix is not None
        if lengths is None or "T" in dims or elsewhere:
            raise ValueError(
                f"{name}: {what} needs the lengths of its sequences, a layout with a"
                " batch, and neither a block_table nor a shared prefix"
            )
        known = type(padding) is Tensor and not torch.compiler.is_compiling()
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


def _joined(tensor: Tensor, rope: Tensor, dims: str, heads: int) -> Tensor:
    """The elements of each head, followed by those of its rotary part."""
    if dims != "BSH":
        return torch.cat((tensor, rope), -1)
    parts = [t.unflatten(-1, (heads, t.shape[-1] // heads)) for t in (tensor, rope)]
    return torch.cat(parts, -1).flatten(2)


def _keys(
    tensor: Tensor, prefix: Tensor | None, used: _Options, dims: str, heads: int
) -> Tensor:
    if used.block_table is not None:
        found = _paged(tensor, used.block_table, heads)
        # Without a batch, all sequences come one after another.
        return (
            found.transpose(0, 1).flatten(1, 2).unsqueeze(0) if "T" in dims else found
        )
    found = _to_bnsd(tensor, dims, heads)
    if prefix is None:
        return found
    before = _to_bnsd(prefix, dims, heads)[:, :, : _prefix_length(used, prefix, dims)]
    return torch.cat((before.expand(found.shape[0], -1, -1, -1), found), 2)


def _prefix_length(used: _Options, prefix: Tensor | None, dims: str) -> Any:
    if prefix is None:
        return 0
    given = used.actual_shared_prefix_len
    return prefix.shape[dims.index("S")] if given is None else given[0]


def _paged(blocks: Tensor, table: Tensor, heads: int) -> Tensor:
    """The blocks of a cache in the order of each row of the table. Blocks are (number,
    size, H), (number, N, size, D), or in FRACTAL_NZ (number, N, D / n, size, n)."""
    if blocks.dim() == 5:
        blocks = blocks.transpose(2, 3).flatten(3)
    picked = blocks[table.to(torch.int64).clamp(min=0)]
    if blocks.dim() == 4:
        return picked.transpose(1, 2).flatten(2, 3)
    return _to_bnsd(picked.flatten(1, 2), "BSH", heads)


# The mask


@dataclasses.dataclass
class _Places:
    """For each row (or column): its sequence, its place in the sequence, and the
    sequence's length."""

    sequence: Tensor
    place: Tensor
    length: Tensor


def _as_tensor(lengths: Lengths, like: Tensor) -> Tensor | None:
    if lengths is None or isinstance(lengths, Tensor):
        return lengths
    parts = [torch.scalar_tensor(n, dtype=torch.int64) for n in lengths]
    return torch.stack(parts).to(like.device)


def _places(
    lengths: Lengths, states: Tensor, dims: str, padding: Tensor | None = None
) -> _Places:
    """The places of rows, (batch, rows) each. Rows beyond the sequences have the
    sequence -1. With `padding`, this many rows come behind each sequence, and the other
    unused rows before it."""
    batch, rows = states.shape[0], states.shape[2]
    numbers = torch.arange(rows, device=states.device).expand(batch, rows)
    known = _as_tensor(lengths, states)
    if "T" in dims:
        assert known is not None
        ends = known.to(torch.int64)
        starts = torch.cat((ends.new_zeros(1), ends[:-1]))
        sequence = (numbers.unsqueeze(-1) >= ends).sum(-1)
        inside = sequence.clamp(max=ends.shape[0] - 1)
        place, length = numbers - starts[inside], (ends - starts)[inside]
        return _Places(torch.where(numbers < ends[-1], sequence, -1), place, length)
    if known is None:
        length = torch.full_like(numbers, rows)
    else:
        length = known.to(torch.int64).reshape(-1, 1).expand(batch, rows)
    if padding is None:
        return _Places(torch.where(numbers < length, 0, -1), numbers, length)
    first = rows - padding.to(torch.int64).reshape(()).clamp(min=0) - length
    place = numbers - first
    inside = (place >= 0) & (place < length) & (first >= 0)
    return _Places(torch.where(inside, 0, -1), place, length)


def _allowed(
    q: Tensor, k: Tensor, used: _Options, dims: str
) -> tuple[Tensor | None, Tensor | None]:
    """The mask (batch, 1 or heads, rows, columns), and which rows exist. None: a row
    sees everything."""
    plain = used.actual_seq_lengths is None and used.actual_seq_lengths_kv is None
    padded = used.query_padding_size is not None or used.kv_padding_size is not None
    band = min(used.pre_tokens, used.next_tokens) < _FAR and not padded
    bands = used.sparse_mode in (2, 3, 4) or (used.sparse_mode == 0 and band)
    allowed, live = None, None
    if not plain or bands:
        rows = _places(used.actual_seq_lengths, q, dims, _query_padding(q, used))
        columns = _columns(k, used, dims)
        live = rows.sequence >= 0
        allowed = rows.sequence.unsqueeze(-1) == columns.sequence.unsqueeze(-2)
        allowed = allowed & live.unsqueeze(-1)
        if bands:
            allowed = allowed & _band(rows, columns, used)
        allowed = allowed.unsqueeze(1)
    if used.atten_mask is not None and used.sparse_mode in (0, 1):
        open_ = ~used.atten_mask.to(torch.bool)
        while open_.dim() < 4:
            open_ = open_.unsqueeze(0 if open_.dim() == 2 else 1)
        open_ = open_[..., : q.shape[2], : k.shape[2]]
        allowed = open_ if allowed is None else allowed & open_
    return allowed, live


def _columns(k: Tensor, used: _Options, dims: str) -> _Places:
    lengths = used.actual_seq_lengths_kv
    if "T" in dims and used.block_table is not None:
        if lengths is None:
            raise ValueError("a block_table needs the lengths of keys and values")
        count = used.block_table.shape[0]
        size = k.shape[2] // count
        numbers = torch.arange(k.shape[2], device=k.device).unsqueeze(0)
        sequence, place = numbers // size, numbers % size
        length = _as_tensor(lengths, k).to(torch.int64)[sequence]  # type: ignore[union-attr]
        return _Places(torch.where(place < length, sequence, -1), place, length)
    if "T" in dims and lengths is None:
        lengths = used.actual_seq_lengths
    prefix = _prefix_length(used, used.key_shared_prefix, dims)
    if lengths is not None and used.key_shared_prefix is not None:
        more = _as_tensor(lengths, k)
        assert more is not None
        lengths = more + prefix
    dims = "BNSD" if used.block_table is not None else dims
    return _places(lengths, k, dims, used.kv_padding_size)


def _query_padding(q: Tensor, used: _Options) -> Tensor | None:
    """The padding of the query; none for a query of one row."""
    return used.query_padding_size if q.shape[2] != 1 else None


def _band(rows: _Places, columns: _Places, used: _Options) -> Tensor:
    """The band of columns that each row sees, from `before` to `behind` of its own
    column. Places count from the first row of both sequences or, in the modes 3 and 4,
    from the last."""
    before, behind = used.pre_tokens, used.next_tokens
    if used.sparse_mode in (2, 3):
        before, behind = _FAR, 0
    own = rows.place.unsqueeze(-1)
    if used.sparse_mode in (3, 4):
        own = own + columns.length.unsqueeze(-2) - rows.length.unsqueeze(-1)
    distance = columns.place.unsqueeze(-2) - own
    return (distance <= behind) & (distance >= -before)


# The arithmetic


def _core(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    allowed: Tensor | None,
    used: _Options,
    scales: Scales,
) -> tuple[Tensor, Tensor | None]:
    def weigh(scores: Tensor) -> tuple[Tensor, Tensor]:
        return _weights(scores * used.scale, allowed, used)

    if q.dtype == torch.int8:
        result, lse = scales.attend(q, k, v, weigh)
    elif used.pse_shift is None and not used.softmax_lse_flag:
        result = scaled_dot_product_attention(q, k, v, allowed, scale=used.scale)
        if allowed is not None:
            result = torch.where(allowed.any(-1, keepdim=True), result, 0.0)
        return result, None
    else:
        wide = q.to(torch.float32), k.to(torch.float32), v.to(torch.float32)
        weights, lse = weigh(wide[0] @ wide[1].transpose(-1, -2))
        result = weights @ wide[2]
    return result, lse if used.softmax_lse_flag else None


def _weights(
    scores: Tensor, allowed: Tensor | None, used: _Options
) -> tuple[Tensor, Tensor]:
    """The weights of scores, and the logarithm of their sums."""
    if used.pse_shift is not None:
        shift = used.pse_shift.to(torch.float32)
        scores = scores + shift[..., : scores.shape[-2], : scores.shape[-1]]
    if allowed is not None:
        scores = scores.masked_fill(~allowed, float("-inf"))
    lse = torch.logsumexp(scores, -1, keepdim=True)
    weights = torch.exp(scores - lse)
    if allowed is not None:
        weights = torch.where(allowed, weights, 0.0)
    return weights, lse


def _lse(lse: Tensor | None, dims: str, like: Tensor) -> Tensor:
    if lse is None:
        return torch.empty(0, dtype=torch.float32, device=like.device)
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
    f" int pre_tokens={_FAR}, int next_tokens={_FAR}, str input_layout='BSH',"
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


@operator(_SCHEMA)
def npu_fused_infer_attention_score(
    query: Tensor, key: Tensor, value: Tensor, **options: Any
) -> tuple[Tensor, Tensor]:
    """softmax(scale * Q K^T + pse_shift, under the mask) V, and its log-sum-exp.

    query, key, value  in the layout `input_layout`; key and value of int32 hold eight
                       int4 each
    atten_mask      true where a row does not see a column
    actual_seq_lengths, actual_seq_lengths_kv  lengths of sequences
    block_table     the blocks of a paged cache, which may be in FRACTAL_NZ: (blocks,
                    heads, D / n, size, n)
    query_padding_size, kv_padding_size  one element: how many rows come behind each
                                         sequence
    scales, offsets  for int8, as attention_scales.py says

    The second result is filled only with `softmax_lse_flag`. ValueError: a wrong
    argument. NotImplementedError: rotary parts of integers.
    """
    return attend(query, key, value, options, "npu_fused_infer_attention_score")


@operator(_SCHEMA.replace("SymInt[]?", "Tensor?"))
def _fused_infer_attention_of_tensors(
    query: Tensor, key: Tensor, value: Tensor, **options: Any
) -> tuple[Tensor, Tensor]:
    """The same operator with lengths as int64 tensors."""
    return attend(query, key, value, options, "npu_fused_infer_attention_score")


# Names of version two that differ.
RENAMED = {
    "num_query_heads": "num_heads",
    "softmax_scale": "scale",
    "actual_seq_qlen": "actual_seq_lengths",
    "actual_seq_kvlen": "actual_seq_lengths_kv",
    "return_softmax_lse": "softmax_lse_flag",
}


@operator(
    "(Tensor query, Tensor key, Tensor value, *, Tensor? pse_shift=None,"
    " Tensor? atten_mask=None, SymInt[]? actual_seq_qlen=None,"
    f" SymInt[]? actual_seq_kvlen=None, {_TENSORS} int num_query_heads=1,"
    f" float softmax_scale=1.0,{_NUMBERS} bool return_softmax_lse=False,{_MODES}"
)
def npu_fused_infer_attention_score_v2(
    query: Tensor, key: Tensor, value: Tensor, **options: Any
) -> tuple[Tensor, Tensor]:
    """npu_fused_infer_attention_score with the names of version two."""
    options = {RENAMED.get(name, name): value for name, value in options.items()}
    return attend(query, key, value, options, "npu_fused_infer_attention_score_v2")
