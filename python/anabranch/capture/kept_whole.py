"""Operators that a trace keeps whole and `handmade.complete` later takes apart, once
for each shape.

A model has hundreds of quantised weights of few shapes. Tracing the parts of their
operators in each layer takes longer than compiling them.

`anabranch::dequantized(integers, scale, offset, center, dtype)` is the weight
`(integers - center) * scale + offset` of `llm/quantized_layers.py`. The operators of
recurrent layers are PyTorch's own (recurrent/), unless their weights are bytes
(byte_layers/)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from .. import purity
from .byte_layers import operators as byte_layers
from .recurrent import layers


def _dequantized(
    integers: torch.Tensor,
    scale: torch.Tensor,
    offset: torch.Tensor | None,
    center: int,
    dtype: torch.dtype,
) -> torch.Tensor:
    whole = integers
    if whole.dtype == torch.uint8:
        whole = torch.stack([whole & 15, whole >> 4], -1).flatten(1)
    rows, groups = scale.shape
    values = whole.view(rows, groups, -1).float()
    if center:
        values = values - center
    values = values * scale.unsqueeze(-1)
    if offset is not None:
        values = values + offset.unsqueeze(-1)
    return values.view(rows, -1).to(dtype)


def _like(
    integers: torch.Tensor, scale: torch.Tensor, offset: Any, center: Any, dtype: Any
) -> torch.Tensor:
    per_byte = 2 if integers.dtype == torch.uint8 else 1
    rows, columns = integers.shape
    return integers.new_empty((rows, columns * per_byte), dtype=dtype)


dequantized = purity.define(
    "dequantized(Tensor integers, Tensor scale, Tensor? offset, int center,"
    " ScalarType dtype) -> Tensor",
    _dequantized,
    _like,
)

# The function that computes each of these operators.
PARTS: dict[Any, Callable[..., Any]] = {
    dequantized: _dequantized,
    **layers.PARTS,
    **byte_layers.PARTS,
}
