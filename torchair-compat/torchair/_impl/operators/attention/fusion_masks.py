"""Which keys each row of npu_fusion_attention reads, by sparse_mode, and its biases of
distances.

After Ascend's API reference of torch_npu, page npu_fusion_attention."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from ..checks import check, check_dtype

NAME = "npu_fusion_attention"
FOREVER = 2147483647
_COMPRESSED = 1024  # rows of biases that depend on the distance of row and column
_BAND, _LAST_BAND, _FIRST_BAND = 4, 7, 8
_PREFIXES = (5, 6)
# pse_type: pse is added to scores before or after the scale, or has slopes of distances.
PLAIN_PSE, SCALED_PSE, SLOPES, ROOT_SLOPES = range(4)


@dataclass(frozen=True)
class Sparse:
    """The mask (True where nothing is read), `sparse_mode`, the band and prefixes. Without
    a mask everything is read, whatever the others say."""

    mask: Tensor | None
    mode: int
    before: int
    after: int
    prefix: Sequence[int] | None
    name: str = NAME  # of the operator

    def check(self, layout: str, has_pse: bool) -> None:
        """RuntimeError: a mode that the layout does not have, or prefixes that are
        missing."""
        check_dtype(self.mask, self.name, "atten_mask", (torch.bool, torch.uint8))
        known = range(9) if layout == "TND" else range(7)
        fits = self.mode in known and not (layout == "TND" and self.mode == 5)
        check(fits, self.name, f"{layout} has no sparse_mode {self.mode}")
        text = f"sparse_mode {self.mode} takes no pse"
        check(not has_pse or self.mode < _LAST_BAND, self.name, text)
        if self.mode in _PREFIXES and self.mask is not None:
            check(
                self.prefix is not None,
                self.name,
                f"sparse_mode {self.mode} needs prefix",
            )
        else:
            check(self.prefix is None, self.name, "prefix is for sparse_mode 5 and 6")

    def of_sequence(self, number: int, lengths: tuple[list[int], list[int]]) -> Sparse:
        """The rule of one of several sequences, whose queries and keys have these
        lengths."""
        queries, keys = lengths
        if self.mask is None:
            return self
        mode, mask, prefix = self.mode, self.mask, self.prefix
        if mode in (0, 1):
            mask = mask[..., : queries[number], : keys[number]]
        elif mode == _LAST_BAND:
            mode = _BAND if sum(queries[number + 1 :]) == 0 else 3
        elif mode == _FIRST_BAND:
            mode = _BAND if number == 0 else 2
        elif prefix is not None:
            fits = len(prefix) == len(queries)
            check(fits, self.name, f"prefix must have {len(queries)} numbers")
            prefix = [prefix[number]]
        return replace(self, mode=mode, mask=mask, prefix=prefix)

    def hidden(self, scores: Tensor) -> Tensor | None:
        """The elements of scores (batch, heads, rows, columns) that are not read."""
        if self.mask is None:
            return None
        given = self.mask.to(torch.bool)
        narrow = min(self.before, self.after) < FOREVER
        if self.mode == 1 or (self.mode == 0 and not narrow):
            return given
        rows, columns = scores.shape[-2:]
        shift = 0 if self.mode in (0, 2) else columns - rows
        row = torch.arange(rows, device=scores.device).unsqueeze(-1) + shift
        column = torch.arange(columns, device=scores.device)
        if self.mode in (2, 3):
            return column > row
        if self.mode in _PREFIXES:
            later = (column > row) & (column >= self._prefixes(scores))
            return later | given if self.mode == 5 else later
        outside = (column > row + self.after) | (column < row - self.before)
        return outside | given if self.mode == 0 else outside

    def _prefixes(self, scores: Tensor) -> Tensor:
        """How many keys each of the batch reads in every row: (batch, 1, 1, 1)."""
        assert self.prefix is not None
        batch, _, rows, columns = scores.shape
        numbers = [int(number) for number in self.prefix]
        text = f"prefix must have {batch} numbers, got {len(numbers)}"
        check(len(numbers) == batch, self.name, text)
        least = max(columns - rows, 0)
        fits = all(least <= number <= columns for number in numbers)
        check(
            fits, self.name, f"prefix must be from {least} to {columns}, got {numbers}"
        )
        return torch.tensor(numbers, device=scores.device).reshape(-1, 1, 1, 1)


def biases(pse: Tensor, scores: Tensor, sparse: Sparse) -> Tensor:
    """The biases of scores (batch, heads, rows, columns), in f32. Of biases that depend
    on the distance of row and column the last 1024 rows are enough."""
    batch, heads, rows, columns = scores.shape
    shape = tuple(pse.shape)
    fits = pse.dim() == 4 and shape[0] in (1, batch) and shape[1] == heads
    text = f"pse must be (1 or {batch}, {heads}, 1 or {rows}, {columns}), got {shape}"
    check(fits, sparse.name, text)
    pse = pse.to(torch.float32)
    if shape[2] in (1, rows) and shape[3] == columns:
        return pse
    last = rows == columns and shape[2] == _COMPRESSED and shape[3] >= columns
    check(last, sparse.name, text)
    check(
        sparse.mode in (0, 2, 3), sparse.name, "pse of 1024 rows needs mode 0, 2 or 3"
    )
    row = torch.arange(rows, device=pse.device).unsqueeze(-1)
    distance = (row - torch.arange(columns, device=pse.device)).clamp(min=0)
    return pse[..., -1, :][..., shape[3] - 1 - distance]


def distances(
    slopes: Tensor, scores: Tensor, starts: tuple[int, int], root: bool, name: str
) -> Tensor:
    """The biases that grow with the distance of row and column, or with its `root`, by a
    slope for each head: slopes (heads,) or (batch, heads), in f32."""
    batch, heads, rows, columns = scores.shape
    shape = tuple(slopes.shape)
    fits = shape in ((heads,), (batch, heads), (1, heads))
    text = f"pse must be ({heads},) or ({batch}, {heads}) in pse_type 2 and 3"
    check(fits, name, f"{text}, got {shape}")
    row = torch.arange(rows, device=scores.device).unsqueeze(-1) + starts[0]
    column = torch.arange(columns, device=scores.device) + starts[1]
    distance = (row - column).abs().to(torch.float32)
    distance = distance.sqrt() if root else distance
    return -distance * slopes.to(torch.float32).reshape(-1, heads, 1, 1)
