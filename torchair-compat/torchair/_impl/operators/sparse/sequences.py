"""Where the rows of queries and of keys of sparse attention are.

Queries come in the layouts BSND and TND, keys in these and in PA_BSND, pages of a cache.
After the layouts, every row of a query has a sequence and a place in it."""

from __future__ import annotations

import dataclasses

import torch
from torch import Tensor

from ..checks import INTEGERS, check, check_dtype, check_shape, reads_values
from ..quantisation.rows import group_of_rows

__all__ = ["FOREVER", "Sequences", "check_masks"]

FOREVER = 9223372036854775807  # of pre_tokens and next_tokens: no band
_PAGES = "PA_BSND"


def check_masks(name: str, sparse_mode: int, pre_tokens: int, next_tokens: int) -> None:
    known = sparse_mode in (0, 3)
    check(known, name, f"sparse_mode must be 0 or 3, got {sparse_mode}")
    for what, value in (("pre_tokens", pre_tokens), ("next_tokens", next_tokens)):
        check(value == FOREVER, name, f"{what} must be {FOREVER}, got {value}")


@dataclasses.dataclass(frozen=True)
class Sequences:
    """The rows of all queries, (rows,) each, and how keys are found."""

    layout: str  # of keys
    batch: int
    capacity: int  # the most keys of a sequence, as shapes tell
    sequence: Tensor  # of each row
    place: Tensor  # in the sequence
    live: Tensor  # whether the row belongs to a sequence
    queries: Tensor  # the number of queries of its sequence
    keys: Tensor  # the number of keys of its sequence
    first: Tensor  # TND: the first key of its sequence
    table: Tensor | None  # PA_BSND: (sequences, pages)
    page: int  # PA_BSND: the keys of a page

    @staticmethod
    def of(
        name: str,
        query: Tensor,
        key: Tensor,
        layout_query: str,
        layout_key: str,
        lengths_query: Tensor | None,
        lengths_key: Tensor | None,
        block_table: Tensor | None,
        kv: str = "key",
    ) -> Sequences:
        """RuntimeError: layouts, shapes or lengths that do not go together. `kv` is what
        the operator calls its keys."""
        _check_layouts(name, query, key, layout_query, layout_key, kv)
        lengths = {"query": lengths_query, kv: lengths_key}
        for what, given in lengths.items():
            check_dtype(given, name, f"actual_seq_lengths_{what}", INTEGERS)
        for what, layout in (("query", layout_query), (kv, layout_key)):
            needed = layout in ("TND", _PAGES)
            text = f"the layout {layout} needs actual_seq_lengths_{what}"
            check(not needed or lengths[what] is not None, name, text)
        paged = layout_key == _PAGES
        text = f"layout_{kv} {_PAGES} and block_table need each other"
        check(paged == (block_table is not None), name, text)
        if lengths_query is not None:
            batch = lengths_query.shape[0]
        else:
            batch = query.shape[0]
        if layout_query == "BSND":
            check_shape(
                lengths_query, name, "actual_seq_lengths_query", (query.shape[0],)
            )
        check_shape(lengths_key, name, f"actual_seq_lengths_{kv}", (batch,))
        check_dtype(block_table, name, "block_table", INTEGERS)
        page = key.shape[1] if paged else 0
        capacity = key.shape[0 if layout_key == "TND" else 1]
        if block_table is not None:
            check(block_table.dim() == 2, name, "block_table must have 2 dimensions")
            shape = (batch, block_table.shape[1])
            check_shape(block_table, name, "block_table", shape)
            capacity = block_table.shape[1] * page
        own = _rows(name, query, layout_query, lengths_query)
        sequence = own[0]
        first = torch.zeros_like(sequence)
        if lengths_key is None:
            keys = torch.full_like(sequence, capacity)
        else:
            what = f"actual_seq_lengths_{kv}"
            sizes, starts = _sizes(name, what, lengths_key, layout_key, capacity)
            keys, first = sizes[sequence], starts[sequence]
        return Sequences(
            layout_key, batch, capacity, *own, keys, first, block_table, page
        )

    def part(self, rows: slice) -> Sequences:
        """Some of the rows."""
        names = ("sequence", "place", "live", "queries", "keys", "first")
        own = {name: getattr(self, name)[rows] for name in names}
        return dataclasses.replace(self, **own)

    def gathered(self, tensor: Tensor, places: Tensor) -> Tensor:
        """The keys (rows, n, width) at `places` (rows, n) of each row's sequence. Places
        that no sequence has read any key."""
        states = tensor.select(-2, 0)
        sequence = self.sequence.unsqueeze(-1)
        safe = places.clamp(0, max(self.capacity - 1, 0))
        if self.table is not None:
            pages = self.table.to(torch.int64)
            page = pages[sequence, safe // self.page].clamp(min=0)
            return states[page, safe % self.page]
        if self.layout == "TND":
            whole = self.first.unsqueeze(-1) + safe
            return states[whole.clamp(max=max(self.capacity - 1, 0))]
        return states[sequence, safe]

    def whole(self, tensor: Tensor) -> Tensor:
        """All keys (sequences, capacity, width); in TND (1, tokens, width)."""
        states = tensor.select(-2, 0)
        if self.table is not None:
            return states[self.table.to(torch.int64).clamp(min=0)].flatten(1, 2)
        return states.unsqueeze(0) if self.layout == "TND" else states

    def keys_of(self, tensor: Tensor, number: int, count: int) -> Tensor:
        """The first `count` keys of a sequence, (1, count, width), in eager code."""
        states = tensor.select(-2, 0)
        if self.table is not None:
            pages = self.table[number, : -(-count // self.page)].to(torch.int64)
            return states[pages].flatten(0, 1)[:count].unsqueeze(0)
        if self.layout == "TND":
            rows = (self.sequence == number).nonzero()
            start = int(self.first[rows[0]]) if rows.numel() else 0
            return states[start : start + count].unsqueeze(0)
        return states[number, :count].unsqueeze(0)

    def seen(self, sparse_mode: int) -> Tensor:
        """How many keys of its sequence each row sees, (rows,)."""
        count = self.keys
        if sparse_mode == 3:
            own = self.keys - self.queries + self.place + 1
            count = torch.minimum(count, own).clamp(min=0)
        return torch.where(self.live, count, 0)


def _check_layouts(
    name: str, query: Tensor, key: Tensor, layout_query: str, layout_key: str, kv: str
) -> None:
    known = layout_query in ("BSND", "TND")
    check(known, name, f"layout_query must be BSND or TND, got {layout_query!r}")
    known = layout_key in ("BSND", "TND", _PAGES)
    text = f"layout_{kv} must be BSND, TND or {_PAGES}, got {layout_key!r}"
    check(known, name, text)
    same = layout_key in (layout_query, _PAGES)
    text = f"layout_{kv} {layout_key} does not go with layout_query {layout_query}"
    check(same, name, text)
    for what, tensor, layout in (
        ("query", query, layout_query),
        ("key", key, layout_key),
    ):
        dims = 3 if layout == "TND" else 4
        text = f"{what} must have {dims} dimensions in {layout}, got {tensor.dim()}"
        check(tensor.dim() == dims, name, text)
    check(key.shape[-2] == 1, name, f"key must have 1 head, got {key.shape[-2]}")
    if layout_key == "BSND":
        same = key.shape[0] == query.shape[0]
        check(same, name, f"key has {key.shape[0]} sequences, query {query.shape[0]}")


def _rows(
    name: str, query: Tensor, layout: str, lengths: Tensor | None
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """For each row of the query: sequence, place, whether it is live, and the number of
    queries of its sequence."""
    what = "actual_seq_lengths_query"
    if layout == "BSND":
        batch, length = query.shape[:2]
        numbers = torch.arange(batch * length, device=query.device)
        sequence, place = numbers // max(length, 1), numbers % max(length, 1)
        if lengths is None:
            return sequence, place, place >= 0, torch.full_like(place, length)
        sizes, _ = _sizes(name, what, lengths, layout, length)
        return sequence, place, place < sizes[sequence], sizes[sequence]
    assert lengths is not None
    sizes, starts = _sizes(name, what, lengths, layout, query.shape[0])
    numbers = torch.arange(query.shape[0], device=query.device)
    ends = starts + sizes
    sequence = group_of_rows(ends, query.shape[0])
    live = sequence < ends.shape[0]
    sequence = sequence.clamp(max=ends.shape[0] - 1)
    return sequence, numbers - starts[sequence], live, sizes[sequence]


def _sizes(
    name: str, what: str, lengths: Tensor, layout: str, capacity: int
) -> tuple[Tensor, Tensor]:
    """The length of each sequence, and where it begins; TND has the ends. RuntimeError,
    in eager code: a length that shapes do not hold."""
    known = lengths.to(torch.int64)
    if reads_values(lengths):
        numbers = lengths.tolist()
        fits = all(0 <= n <= capacity for n in numbers)
        rises = layout != "TND" or numbers == sorted(numbers)
        rule = "ascend up to" if layout == "TND" else "be from 0 to"
        check(fits and rises, name, f"{what} must {rule} {capacity}, got {numbers}")
    if layout != "TND":
        return known, torch.zeros_like(known)
    starts = torch.cat([known.new_zeros(1), known[:-1]])
    return known - starts, starts
