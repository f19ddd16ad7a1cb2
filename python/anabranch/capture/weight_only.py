"""PyTorch's operators of weight-only products, as what they compute.

Each becomes a product with a dequantised weight, which the compiler reads in its few
bits where it is frozen. The layout of 4 bits is that of PyTorch's kernel for this CPU:
blocks of rows, each [columns][rows of the block / 2], whose first half of rows is in
the low nibbles and whose second half is in the high ones. In a last block with fewer
rows, even ones are in the low nibbles and odd ones in the high ones."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch

aten = torch.ops.aten
ZERO = 8  # the integer of 4 bits that stands for zero


def decompositions() -> dict[Any, Callable[..., Any]]:
    return {
        aten._weight_int8pack_mm.default: int8_product,
        aten._weight_int4pack_mm_for_cpu.default: int4_product,
        aten._convert_weight_to_int4pack_for_cpu.default: pack_int4,
    }


def int8_product(
    x: torch.Tensor, weight: torch.Tensor, scales: torch.Tensor
) -> torch.Tensor:
    """x [m, k], weight int8 [n, k], scales [n]."""
    wide = weight.float() * scales.float().unsqueeze(1)
    return torch.mm(x, wide.to(x.dtype).t())


def int4_product(
    x: torch.Tensor, packed: torch.Tensor, group: int, scale_and_zero: torch.Tensor
) -> torch.Tensor:
    """x [m, k], packed uint8 [n, k / 2], scale and value at 8 [k / group, n, 2]."""
    rows, columns = packed.shape[0], x.shape[1]
    whole = unpack_int4(packed).view(rows, columns // group, group)
    parameters = scale_and_zero.float().unbind(-1)
    scale, zero = (part.t().unsqueeze(-1) for part in parameters)
    weight = (whole.float() - ZERO) * scale + zero
    return torch.mm(x, weight.view(rows, columns).to(x.dtype).t())


def pack_int4(whole: torch.Tensor, inner_k_tiles: int) -> torch.Tensor:
    """Integers from 0 to 15 as int32 [n, k] to uint8 [n, k / 2]."""
    columns = whole.shape[1]
    parts = []
    for part, block, halves in _blocks(whole.to(torch.uint8)):
        rows = part.view(-1, block, columns).transpose(1, 2)
        low, high = (
            (rows[..., : block // 2], rows[..., block // 2 :])
            if halves
            else (rows[..., ::2], rows[..., 1::2])
        )
        parts.append((low | high << 4).reshape(-1, columns // 2))
    return torch.cat(parts) if len(parts) > 1 else parts[0]


def unpack_int4(packed: torch.Tensor) -> torch.Tensor:
    """The opposite: uint8 [n, k] from 0 to 15."""
    columns = packed.shape[1] * 2
    parts = []
    for part, block, halves in _blocks(packed):
        pairs = part.reshape(-1, columns, block // 2)
        nibbles = [pairs & 15, pairs >> 4]
        rows = torch.cat(nibbles, -1) if halves else torch.stack(nibbles, -1).flatten(2)
        parts.append(rows.transpose(1, 2).reshape(-1, columns))
    return torch.cat(parts) if len(parts) > 1 else parts[0]


def _blocks(rows: torch.Tensor) -> Iterator[tuple[torch.Tensor, int, bool]]:
    """The rows of whole blocks and the others, which are a block of their own; rows of
    a block; whether its halves are packed together, or else its neighbours."""
    block, halves = _layout()
    end = rows.shape[0] // block * block
    if end:
        yield rows[:end], block, halves
    if end < rows.shape[0]:
        yield rows[end:], rows.shape[0] - end, False


@functools.cache
def _layout() -> tuple[int, bool]:
    capability = torch.backends.cpu.get_cpu_capability()
    return (64 if capability.startswith("AVX512") else 32), capability != "DEFAULT"
