"""Makes the mask of npu_fused_infer_attention_score.

Queries and keys are (batch, heads, rows, elements) here. One mask says which columns
(keys) a row (query) sees: it depends on the sequence and the place of each row and each
column. In layouts without a batch, all sequences come one after another.
"""

from __future__ import annotations

import dataclasses

import torch
from torch import Tensor

from .options import FAR, Lengths, Options, as_tensor, prefix_length

__all__ = ["visible"]


@dataclasses.dataclass
class _Places:
    """For each row (or column): its sequence, its place in the sequence, and the
    sequence's length."""

    sequence: Tensor
    place: Tensor
    length: Tensor


def visible(
    q: Tensor, k: Tensor, used: Options, name: str
) -> tuple[Tensor | None, Tensor | None]:
    """Which columns each row sees, (batch, 1 or heads, rows, columns), and which rows
    belong to a sequence, (batch, rows). None: all of them. ValueError: an atten_mask of
    another shape, or too few lengths."""
    single = _single(q, used)
    bands = _has_band(used) and not single
    if not single:
        used.check_lengths("actual_seq_lengths", q, name)
    used.check_lengths("actual_seq_lengths_kv", k, name)
    tree = used.sparse_mode == 9
    plain = used.actual_seq_lengths_kv is None and (
        single or used.actual_seq_lengths is None
    )
    seen, live = None, None
    if not plain or bands or tree:
        rows, columns = _rows(q, used, single, name), _columns(k, used, name)
        live = rows.sequence >= 0
        seen = rows.sequence.unsqueeze(-1) == columns.sequence.unsqueeze(-2)
        seen = seen & live.unsqueeze(-1)
        if bands:
            seen = seen & _band(rows, columns, used)
        if tree:
            seen = seen & _tree(rows, columns, used, name)
        seen = seen.unsqueeze(1)
    if used.atten_mask is not None and used.sparse_mode in (0, 1):
        open_ = ~_over_scores(used.atten_mask, q, k, name)
        seen = open_ if seen is None else seen & open_
    return seen, live


def _single(q: Tensor, used: Options) -> bool:
    """Whether each sequence has one new token. Sparse modes, bands and lengths of queries
    do not apply to it, unless it has a rotary part."""
    return "T" not in used.dims and q.shape[2] == 1 and used.query_rope is None


def _has_band(used: Options) -> bool:
    if used.sparse_mode in (2, 3, 4):
        return True
    padded = used.query_padding_size is not None or used.kv_padding_size is not None
    narrow = min(used.pre_tokens, used.next_tokens) < FAR
    # Without a mask mode 0 reads everything.
    masked = used.atten_mask is not None
    return used.sparse_mode == 0 and narrow and masked and not padded


def _over_scores(mask: Tensor, q: Tensor, k: Tensor, name: str) -> Tensor:
    """The caller's mask as (batch or 1, 1, rows, columns)."""
    closed = mask.to(torch.bool)
    batch, rows, columns = q.shape[0], q.shape[2], k.shape[2]
    if closed.dim() == 2:
        each = rows == 1 and closed.shape[0] == batch
        closed = closed.unsqueeze(1) if each else closed.unsqueeze(0)
    if closed.dim() == 3:
        closed = closed.unsqueeze(1)
    fits = closed.dim() == 4 and closed.shape[0] in (1, batch)
    if not fits or closed.shape[2] < rows or closed.shape[3] < columns:
        raise ValueError(
            f"{name}: atten_mask of {tuple(mask.shape)} does not cover {rows} rows and"
            f" {columns} columns of {batch} sequences"
        )
    return closed[..., :rows, :columns]


def _places(
    lengths: Lengths, states: Tensor, dims: str, padding: Tensor | None = None
) -> _Places:
    """The places of rows, (batch, rows) each. Rows beyond the sequences have the
    sequence -1. With `padding`, this many rows come after each sequence, and the other
    unused rows before it."""
    batch, rows = states.shape[0], states.shape[2]
    numbers = torch.arange(rows, device=states.device).expand(batch, rows)
    known = as_tensor(lengths, states)
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


def _rows(q: Tensor, used: Options, single: bool, name: str) -> _Places:
    if single:
        return _places(None, q, used.dims)
    lengths = used.lengths("actual_seq_lengths", q.shape[0], name)
    padding = used.query_padding_size if q.shape[2] != 1 else None
    return _places(lengths, q, used.dims, padding)


def _columns(k: Tensor, used: Options, name: str) -> _Places:
    dims = used.dims
    lengths = used.lengths("actual_seq_lengths_kv", k.shape[0], name)
    if "T" in dims and used.block_table is not None:
        known = as_tensor(lengths, k)
        assert known is not None
        size = k.shape[2] // used.block_table.shape[0]
        numbers = torch.arange(k.shape[2], device=k.device).unsqueeze(0)
        sequence, place = numbers // size, numbers % size
        length = known.to(torch.int64)[sequence]
        return _Places(torch.where(place < length, sequence, -1), place, length)
    if "T" in dims and lengths is None:
        lengths = used.actual_seq_lengths
    if lengths is not None and used.key_shared_prefix is not None:
        more = as_tensor(lengths, k)
        assert more is not None
        lengths = more + prefix_length(used, used.key_shared_prefix)
    dims = "BNSD" if used.block_table is not None else dims
    return _places(lengths, k, dims, used.kv_padding_size)


def _own(rows: _Places, columns: _Places) -> Tensor:
    """The column of each row's own token. The last row and the last column of a sequence
    are the same token."""
    shift = columns.length.unsqueeze(-2) - rows.length.unsqueeze(-1)
    return rows.place.unsqueeze(-1) + shift


def _band(rows: _Places, columns: _Places, used: Options) -> Tensor:
    """The band of columns that each row sees, from `before` to `after` of its own
    column. Places count from the first row of both sequences or, in the modes 3 and 4,
    from the last."""
    before, after = used.pre_tokens, used.next_tokens
    if used.sparse_mode in (2, 3):
        before, after = FAR, 0
    own = rows.place.unsqueeze(-1)
    if used.sparse_mode in (3, 4):
        own = _own(rows, columns)
    distance = columns.place.unsqueeze(-2) - own
    return (distance <= after) & (distance >= -before)


def _tree(rows: _Places, columns: _Places, used: Options, name: str) -> Tensor:
    """The columns that each row sees in sparse mode 9.

    A sequence of n rows has a mask of n rows for its last n columns. The columns before
    them are all seen. `atten_mask` is (batch, rows, rows). In layouts without a batch it
    is a vector with the n * n elements of each sequence, one after another.
    """
    assert used.atten_mask is not None
    mask = used.atten_mask.to(torch.bool)
    batch, count = rows.place.shape
    if "T" in used.dims:
        ends = as_tensor(used.actual_seq_lengths, mask)
        assert ends is not None
        sizes = torch.diff(ends.to(torch.int64), prepend=ends.new_zeros(1))
        firsts = sizes.square().cumsum(0) - sizes.square()
        first = firsts[rows.sequence.clamp(min=0)].unsqueeze(-1)
        stride, right = rows.length.unsqueeze(-1), mask.dim() == 1
    else:
        numbers = torch.arange(batch, device=mask.device).reshape(-1, 1, 1)
        first, stride = numbers * count * count, count
        right = tuple(mask.shape) == (batch, count, count)
    if not right:
        raise ValueError(
            f"{name}: atten_mask of sparse_mode 9 must be (batch, rows, rows), or a"
            f" vector in layouts without a batch, got {tuple(mask.shape)}"
        )
    newest = columns.length.unsqueeze(-2) - rows.length.unsqueeze(-1)
    column = columns.place.unsqueeze(-2) - newest
    place = first + rows.place.unsqueeze(-1) * stride + column.clamp(min=0)
    flat = mask.reshape(-1)
    closed = flat[place.clamp(0, flat.shape[0] - 1)]
    return (column < 0) | ~closed
