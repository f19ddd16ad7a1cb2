"""The same sequences of queries and keys in the layouts BSND, TND and PA_BSND, with NaN
where no sequence has a key."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import torch

PAGE = 4
LAYOUTS = [("BSND", "BSND"), ("TND", "TND"), ("BSND", "PA_BSND"), ("TND", "PA_BSND")]


@dataclasses.dataclass
class Laid:
    """Sequences in two layouts. `queries` and `keys` are their lengths."""

    layouts: tuple[str, str]
    queries: list[int]
    keys: list[int]

    @property
    def lengths(self) -> tuple[torch.Tensor, torch.Tensor]:
        """The lengths as an operator takes them: ends in TND."""
        found = []
        for layout, sizes in zip(self.layouts, (self.queries, self.keys)):
            given = torch.tensor(sizes)
            given = given.cumsum(0) if layout == "TND" else given
            found.append(given.to(torch.int32))
        return found[0], found[1]

    @property
    def table(self) -> torch.Tensor | None:
        """The pages of each sequence, in an order of their own; page 0 is nobody's."""
        if self.layouts[1] != "PA_BSND":
            return None
        most = max(-(-n // PAGE) for n in self.keys) + 1
        table, page = torch.zeros(len(self.keys), most, dtype=torch.int32), 1
        for row, size in enumerate(self.keys):
            for place in range(-(-size // PAGE)):
                table[row, place] = page
                page += 1
        return table

    def lay_queries(self, parts: list[torch.Tensor]) -> torch.Tensor:
        """(length, ...) of each sequence, as queries."""
        return self._laid(self.layouts[0], parts, self.queries, 0.0)

    def lay_keys(self, parts: list[torch.Tensor]) -> torch.Tensor:
        table = self.table
        if table is None:
            return self._laid(self.layouts[1], parts, self.keys, torch.nan)
        pages = _hidden(parts[0], torch.nan, int(table.max()) + 1, PAGE)
        for row, part in zip(table, parts):
            for place, state in enumerate(part):
                pages[int(row[place // PAGE]), place % PAGE] = state
        return pages

    def _laid(
        self, layout: str, parts: list[torch.Tensor], sizes: list[int], hidden: float
    ) -> torch.Tensor:
        if layout == "TND":
            return torch.cat(parts)
        whole = _hidden(parts[0], hidden, len(parts), max(sizes))
        for row, part in zip(whole, parts):
            row[: part.shape[0]] = part
        return whole

    def rows(self, laid: torch.Tensor) -> list[torch.Tensor]:
        """Takes what `lay_queries` made apart again."""
        if self.layouts[0] == "TND":
            return list(laid.split(self.queries))
        return [part[:size] for part, size in zip(laid, self.queries)]

    def options(self, kv: str) -> dict[str, Any]:
        """The arguments that say where everything is."""
        queries, keys = self.lengths
        return {
            "layout_query": self.layouts[0],
            f"layout_{kv}": self.layouts[1],
            "actual_seq_lengths_query": queries,
            f"actual_seq_lengths_{kv}": keys,
            "block_table": self.table,
        }


def _hidden(like: torch.Tensor, value: float, *sizes: int) -> torch.Tensor:
    """Rows of no sequence. NaN of a dtype without it is its largest value."""
    if math.isnan(value) and not like.is_floating_point():
        value = torch.iinfo(like.dtype).max
    made = torch.full((*sizes, *like.shape[1:]), value, dtype=torch.float32)
    return made.to(like.dtype)
