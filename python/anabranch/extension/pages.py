"""Attention over the pages in which a server keeps the keys and values of its requests.

For page size P and head size D, a page has the keys of a head as [D][P], and the values
as [P][D]."""

from __future__ import annotations

from torch import Tensor

from .._C import attend_pages as _attend_pages

__all__ = ["attend_pages"]


def attend_pages(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    output: Tensor,
    keys: Tensor,
    values: Tensor,
    table: Tensor,
    lengths: Tensor,
    slots: Tensor,
    scale: float,
    window: int = 0,
) -> None:
    """Writes a new token of each request to the cache, and attends to its tokens.

    query, output   [requests, heads, D], in bf16 or f32 as the other floats
    key, value      [requests, key heads, D]
    keys, values    [pages, key heads, P, D] as memory; D and P are multiples of 16
    table           int32 [requests, pages]: the pages of each request
    lengths         int32 [requests]: its tokens, with the new one, which is its last
    slots           int64 [requests]: page * P + place of the new token
    window          0, or to how many of its last tokens a request attends

    PyTorch's threads share the heads of the requests. TypeError and ValueError: the
    tensors do not fit each other, or name a page outside of the cache. Nothing is
    written then."""
    _attend_pages(
        query,
        key,
        value,
        output,
        keys,
        values,
        table,
        lengths,
        slots,
        scale,
        window,
    )
