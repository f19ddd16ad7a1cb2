"""The lightning indexer: chooses the keys that each token attends to.

After Ascend's API reference of torch_npu, pages npu_lightning_indexer and
npu_quant_lightning_indexer."""

from __future__ import annotations

import dataclasses

import torch
from torch import Tensor

from ..checks import FLOATS, check, check_dtype, check_shape, reads_values
from ..definition import npu_operator
from ..schema import Reserved
from .sequences import FOREVER, Sequences, check_masks

_MOST = 8192  # the largest sparse_count
_CHUNK = 1 << 25  # scores that eager code keeps at a time


@npu_operator
def npu_lightning_indexer(
    query: Tensor,
    key: Tensor,
    weights: Tensor,
    *,
    actual_seq_lengths_query: Tensor | None = None,
    actual_seq_lengths_key: Tensor | None = None,
    block_table: Tensor | None = None,
    layout_query: str = "BSND",
    layout_key: str = "BSND",
    sparse_count: int = 2048,
    sparse_mode: int = 3,
    pre_tokens: int = FOREVER,
    next_tokens: int = FOREVER,
    return_value: bool = False,
) -> tuple[Tensor, Tensor]:
    """The places of the `sparse_count` keys of the largest scores: the sum over heads of
    weights * relu(query key^T), computed in f32.

    query       (b, s, n, d), or (t, n, d) in the layout TND: a float
    key         (b, s, 1, d), (t, 1, d), or (blocks, block_size, 1, d) in the layout
                PA_BSND, with `block_table` (b, pages): query's dtype
    weights     (b, s, n) or (t, n): query's dtype or f32
    actual_seq_lengths_query, actual_seq_lengths_key  (b,) lengths; ends in TND
    sparse_mode  3: a token sees the keys up to its own, the last token and the last key
                being the same; 0: all keys

    Returns (b, s, 1, sparse_count) or (t, 1, sparse_count) int32, the largest score
    first, -1 after the keys that a token sees; and with `return_value` the scores in
    query's dtype, minus infinity there, else an empty tensor. RuntimeError: another
    shape, dtype, mode or length.
    """
    name = "npu_lightning_indexer"
    check_dtype(query, name, "query", FLOATS)
    check_dtype(key, name, "key", (query.dtype,))
    check_dtype(weights, name, "weights", (query.dtype, torch.float32))
    masks = sparse_mode, pre_tokens, next_tokens
    places, scores = _Search(
        name,
        query,
        key,
        weights,
        Sequences.of(
            name,
            query,
            key,
            layout_query,
            layout_key,
            actual_seq_lengths_query,
            actual_seq_lengths_key,
            block_table,
        ),
    ).best(sparse_count, *masks)
    return places, scores.to(query.dtype) if return_value else query.new_empty(0)


@npu_operator
def npu_quant_lightning_indexer(
    query: Tensor,
    key: Tensor,
    weights: Tensor,
    query_dequant_scale: Tensor,
    key_dequant_scale: Tensor,
    query_quant_mode: int,
    key_quant_mode: int,
    *,
    actual_seq_lengths_query: Tensor | None = None,
    actual_seq_lengths_key: Tensor | None = None,
    block_table: Tensor | None = None,
    layout_query: str = "BSND",
    layout_key: str = "BSND",
    sparse_count: int = 2048,
    sparse_mode: int = 3,
    pre_tokens: int = FOREVER,
    next_tokens: int = FOREVER,
    query_dtype: Reserved[int | None] = None,
    key_dtype: Reserved[int | None] = None,
) -> Tensor:
    """npu_lightning_indexer of int8 or float8_e4m3fn: relu(query_dequant_scale *
    key_dequant_scale * (query key^T)) in the place of relu(query key^T).

    weights                f16, bf16 or f32
    query_dequant_scale    the shape of weights: f16 or f32
    key_dequant_scale      key's shape without d: f16 or f32
    query_quant_mode, key_quant_mode  0: a scale for each token and head

    RuntimeError: as npu_lightning_indexer raises.
    """
    name = "npu_quant_lightning_indexer"
    for what, mode in (
        ("query_quant_mode", query_quant_mode),
        ("key_quant_mode", key_quant_mode),
    ):
        check(mode == 0, name, f"{what} must be 0, got {mode}")
    check_dtype(query, name, "query", (torch.int8, torch.float8_e4m3fn))
    check_dtype(key, name, "key", (query.dtype,))
    check_dtype(weights, name, "weights", FLOATS)
    known = (torch.float16, torch.float32)
    for what, scale, states in (
        ("query_dequant_scale", query_dequant_scale, query),
        ("key_dequant_scale", key_dequant_scale, key),
    ):
        check_dtype(scale, name, what, known)
        check_shape(scale, name, what, tuple(states.shape[:-1]))
    masks = sparse_mode, pre_tokens, next_tokens
    places, _ = _Search(
        name,
        query,
        key,
        weights,
        Sequences.of(
            name,
            query,
            key,
            layout_query,
            layout_key,
            actual_seq_lengths_query,
            actual_seq_lengths_key,
            block_table,
        ),
        query_dequant_scale,
        key_dequant_scale,
    ).best(sparse_count, *masks)
    return places


@dataclasses.dataclass(frozen=True)
class _Search:
    """The operands of one call."""

    name: str
    query: Tensor
    key: Tensor
    weights: Tensor
    sequences: Sequences
    query_scale: Tensor | None = None
    key_scale: Tensor | None = None

    def best(
        self, count: int, sparse_mode: int, pre_tokens: int, next_tokens: int
    ) -> tuple[Tensor, Tensor]:
        """The places and the scores of the best keys of each row, in the query's layout."""
        name, query = self.name, self.query
        check_masks(name, sparse_mode, pre_tokens, next_tokens)
        known = 0 < count <= _MOST
        check(known, name, f"sparse_count must be from 1 to {_MOST}, got {count}")
        width, found = query.shape[-1], self.key.shape[-1]
        check(width == found, name, f"query has heads of {width}, key of {found}")
        check_shape(self.weights, name, "weights", tuple(query.shape[:-1]))
        seen = self.sequences.seen(sparse_mode)
        eager = reads_values(query)
        found = (self._by_parts if eager else self._in_graph)(count, seen)
        shape = (*query.shape[:-2], 1, count)
        return found[0].reshape(shape), found[1].reshape(shape)

    def _by_parts(self, count: int, seen: Tensor) -> tuple[Tensor, Tensor]:
        """Eager code reads the keys of each sequence alone, for some rows at a time."""
        found = self.sequences
        query, weights = self.query.flatten(0, -3), self.weights.flatten(0, -2)
        scale = None if self.query_scale is None else self.query_scale.flatten(0, -2)
        places = seen.new_full((seen.shape[0], count), -1, dtype=torch.int32)
        scores = torch.full_like(places, -torch.inf, dtype=torch.float32)
        for number in range(found.batch):
            rows = (found.live & (found.sequence == number)).nonzero().squeeze(-1)
            keys = int(found.keys[rows[0]]) if rows.numel() else 0
            if keys == 0:
                continue
            key = found.keys_of(self.key, number, keys)
            factor = None
            if self.key_scale is not None:
                factor = found.keys_of(self.key_scale.unsqueeze(-1), number, keys)
            columns = torch.arange(keys, device=seen.device)
            for part in rows.split(max(_CHUNK // (query.shape[1] * keys), 1)):
                own = None if scale is None else scale[part].unsqueeze(0)
                parts = query[part].unsqueeze(0), weights[part].unsqueeze(0)
                made = _scores(*parts, key, own, factor)[0]
                ends = seen[part].unsqueeze(-1)
                places[part], scores[part] = _best(made, columns, ends, count)
        return places, scores

    def _in_graph(self, count: int, seen: Tensor) -> tuple[Tensor, Tensor]:
        """Graphs know no lengths: a mask says which keys each row sees."""
        found = self.sequences
        key = found.whole(self.key)
        scales = self.query_scale, None
        if self.key_scale is not None:
            scales = self.query_scale, found.whole(self.key_scale.unsqueeze(-1))
        operands = [self.query, self.weights, scales[0]]
        columns = torch.arange(key.shape[1], device=seen.device)
        if self.query.dim() == 3 and found.layout == "TND":
            columns = columns - found.first.unsqueeze(-1)
            operands = [t if t is None else t.unsqueeze(0) for t in operands]
        elif self.query.dim() == 3:
            operands = [t if t is None else t.unsqueeze(1) for t in operands]
            key = key[found.sequence]
            if scales[1] is not None:
                scales = scales[0], scales[1][found.sequence]
        query, weights, own = operands
        assert query is not None and weights is not None
        made = _scores(query, weights, key, own, scales[1]).flatten(0, 1)
        return _best(made, columns, seen.unsqueeze(-1), count)


def _scores(
    query: Tensor,
    weights: Tensor,
    key: Tensor,
    query_scale: Tensor | None,
    key_scale: Tensor | None,
) -> Tensor:
    """The scores (g, m, keys) in f32 of query (g, m, n, d), weights (g, m, n) and key (g,
    keys, d). f32 is exact for products of int8."""
    rows = query.flatten(1, 2).to(torch.float32)
    dots = rows @ key.to(torch.float32).transpose(-1, -2)
    dots = dots.unflatten(1, query.shape[1:3])
    if query_scale is not None and key_scale is not None:
        columns = key_scale.to(torch.float32).squeeze(-1)[:, None, None]
        dots = dots * (query_scale.to(torch.float32).unsqueeze(-1) * columns)
    return (torch.relu(dots) * weights.to(torch.float32).unsqueeze(-1)).sum(2)


def _best(
    scores: Tensor, columns: Tensor, ends: Tensor, count: int
) -> tuple[Tensor, Tensor]:
    """The `count` best places (rows, count) int32 and their scores. `columns` are the
    places of the scores (rows, keys); those from 0 up to `ends` (rows, 1) count."""
    columns = columns.expand_as(scores)
    seen = (columns >= 0) & (columns < ends)
    most = min(count, scores.shape[1])
    top = torch.where(seen, scores, -torch.inf).topk(most, -1)
    known = seen.gather(-1, top.indices)
    places = torch.where(known, columns.gather(-1, top.indices), -1).to(torch.int32)
    values = torch.where(known, top.values, -torch.inf)
    padding = (0, count - most)
    pad = torch.nn.functional.pad
    return pad(places, padding, value=-1), pad(values, padding, value=-torch.inf)
