"""The scales of attention with int8 operands or an int8 result.

int8 keys and values beside a floating query are dequantised: (x + offset) * scale. An
int8 query has int8 keys and values; both products are then exact sums of integers, and
the weights between them are quantised. All tensors here are (batch, heads, rows,
elements)."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ..quantisation.integer_sums import decode_scale
from ..quantisation.integers import to_int8

__all__ = ["Scales"]

_INT8 = torch.int8


@dataclasses.dataclass
class Scales:
    """The operator's arguments about scales, by their names."""

    dequant_scale1: Tensor | None = None
    quant_scale1: Tensor | None = None
    dequant_scale2: Tensor | None = None
    quant_scale2: Tensor | None = None
    quant_offset2: Tensor | None = None
    antiquant_scale: Tensor | None = None
    antiquant_offset: Tensor | None = None
    antiquant_mode: int = 0
    key_antiquant_scale: Tensor | None = None
    key_antiquant_offset: Tensor | None = None
    key_antiquant_mode: int = 0
    value_antiquant_scale: Tensor | None = None
    value_antiquant_offset: Tensor | None = None
    value_antiquant_mode: int = 0
    dequant_scale_query: Tensor | None = None
    query_quant_mode: int = 0

    def check(self, query: Tensor, key: Tensor, value: Tensor, name: str) -> None:
        """ValueError: a scale is missing, or belongs to no int8 tensor."""
        kinds = {key.dtype, value.dtype}
        if kinds - {_INT8, query.dtype} or len(kinds) > 1:
            raise ValueError(
                f"{name}: key and value must both have the dtype of query or be int8,"
                f" got {key.dtype} and {value.dtype}"
            )
        for what in ("antiquant_mode", "key_antiquant_mode", "value_antiquant_mode"):
            mode = getattr(self, what)
            if not 0 <= mode <= 5:
                raise ValueError(f"{name}: {what} must be from 0 to 5, got {mode}")
        by_row = self.dequant_scale_query is not None
        if self.query_quant_mode not in ((3,) if by_row else (0, 3)):
            raise ValueError(
                f"{name}: query_quant_mode must be 3, got {self.query_quant_mode}"
            )
        if by_row and {query.dtype, *kinds} != {_INT8}:
            raise ValueError(
                f"{name}: dequant_scale_query is for a query, key and value of int8,"
                f" got {query.dtype} and {key.dtype}"
            )
        for what in ("dequant_scale1", "quant_scale1", "dequant_scale2"):
            given = getattr(self, what) is not None
            if given != (query.dtype == _INT8 and not by_row):
                wants = "needs" if not given else "is for a query of int8, not"
                raise ValueError(f"{name}: query of {query.dtype} {wants} {what}")
        if self.quant_offset2 is not None and self.quant_scale2 is None:
            raise ValueError(f"{name}: quant_offset2 needs quant_scale2")
        if self.antiquant_offset is not None and self.antiquant_scale is None:
            raise ValueError(f"{name}: antiquant_offset needs antiquant_scale")
        for what, tensor in (("key", key), ("value", value)):
            scale, offset, _ = self._of(what)
            wanted = tensor.dtype == _INT8 and (query.dtype != _INT8 or by_row)
            if wanted and scale is None:
                raise ValueError(
                    f"{name}: {what} of int8 needs {what}_antiquant_scale or"
                    " antiquant_scale"
                )
            if not wanted and (scale is not None or offset is not None):
                raise ValueError(
                    f"{name}: antiquant_scale and antiquant_offset are for {what} of"
                    f" int8 beside a floating query, got {tensor.dtype}"
                )

    def _of(self, what: str) -> tuple[Tensor | None, Tensor | None, int]:
        """Scale, offset and mode of "key" or "value": its own, or its half of shared
        ones."""
        scale, offset = (
            getattr(self, f"{what}_antiquant_{part}") for part in ("scale", "offset")
        )
        if scale is not None or self.antiquant_scale is None:
            return scale, offset, getattr(self, f"{what}_antiquant_mode")
        place = 0 if what == "key" else 1
        shared = self.antiquant_scale, self.antiquant_offset
        halves = [None if table is None else table[place] for table in shared]
        return halves[0], halves[1], self.antiquant_mode

    def unpaged(self, table: Tensor | None, joined: bool) -> Scales:
        """Modes 4 and 5 keep scales and offsets in pages, (blocks, size) and (blocks,
        heads, size): as the modes 1 and 3, of all sequences one after the other if
        `joined`."""
        changed: dict[str, Any] = {}
        for what in ("key", "value"):
            mode = getattr(self, f"{what}_antiquant_mode")
            if table is None or mode not in (4, 5):
                continue
            changed[f"{what}_antiquant_mode"] = mode - 3 if mode == 4 else 3
            for part in ("scale", "offset"):
                pages = getattr(self, f"{what}_antiquant_{part}")
                if pages is not None:
                    rows = _rows_of_pages(pages, table, joined)
                    changed[f"{what}_antiquant_{part}"] = rows
        return dataclasses.replace(self, **changed)

    def dequantised(self, tensor: Tensor, what: str, name: str) -> Tensor:
        scale, offset, mode = self._of(what)
        if scale is None:
            return tensor
        values = tensor.to(torch.float32)
        if offset is not None:
            values = values + _spread(offset, tensor, mode, f"{what} offset", name)
        return values * _spread(scale, tensor, mode, f"{what} scale", name)

    def attend(
        self, q: Tensor, k: Tensor, v: Tensor, weigh: Callable[[Tensor], Any]
    ) -> tuple[Tensor, Any]:
        """The attention of int8 operands. `weigh` makes the weights of scores, and
        their log-sum-exp."""
        scores = _product(q, k.transpose(-1, -2)) * _factor(self.dequant_scale1)
        weights, more = weigh(scores)
        quantised = to_int8(weights * _factor(self.quant_scale1))
        return _product(quantised, v) * _factor(self.dequant_scale2), more

    def stored(self, result: Tensor, query: Tensor, name: str) -> Tensor:
        """The result in the dtype that is asked for."""
        if self.quant_scale2 is None:
            kind = torch.float16 if query.dtype == _INT8 else query.dtype
            return result.to(kind)
        values = result.to(torch.float32)
        values = values * _spread(self.quant_scale2, result, 0, "quant_scale2", name)
        if self.quant_offset2 is not None:
            table = self.quant_offset2
            values = values + _spread(table, result, 0, "quant_offset2", name)
        return to_int8(values)


NAMES = {field.name for field in dataclasses.fields(Scales)}


def _rows_of_pages(pages: Tensor, table: Tensor, joined: bool) -> Tensor:
    """(batch, rows) or (batch, heads, rows); with `joined` the batch stands in rows."""
    picked = pages[table.to(torch.int64).clamp(min=0)]
    if pages.dim() == 2:
        return picked.flatten(1)
    each = picked.transpose(1, 2).flatten(2)
    return each.transpose(0, 1).flatten(1) if joined else each


def _factor(scale: Tensor | None) -> Tensor:
    assert scale is not None
    if scale.dtype in (torch.int64, torch.uint64):
        return decode_scale(scale.view(torch.int64))[0]
    return scale.to(torch.float32)


def _product(left: Tensor, right: Tensor) -> Tensor:
    return (left.to(torch.int32) @ right.to(torch.int32)).to(torch.float32)


def _spread(table: Tensor, like: Tensor, mode: int, what: str, name: str) -> Tensor:
    """The table, reshaped to broadcast to `like`, without the rows beyond those of
    `like`. Mode 0 has one element, or one for each head and element; 1 one for each row;
    2 one for each head; 3 one for each head and row."""
    batch, heads, rows, size = like.shape
    shapes = {
        0: (1, heads, 1, size),
        1: (batch, 1, rows, 1),
        2: (1, heads, 1, 1),
        3: (batch, heads, rows, 1),
    }
    if mode not in shapes:
        raise ValueError(f"{name}: no such mode of the {what}: {mode}")
    values = table.to(torch.float32)
    if mode == 0 and table.numel() == 1:
        return values.reshape(())
    if mode in (1, 3) and table.shape[-1] > rows:
        values = values[..., :rows]
    shape = shapes[mode]
    count = shape[0] * shape[1] * shape[2] * shape[3]
    if values.numel() != count:
        raise ValueError(
            f"{name}: the {what} of mode {mode} must have {count} elements, got"
            f" {tuple(table.shape)}"
        )
    return values.reshape(shape)
