"""Decomposes PyTorch's operators for weight-only quantised products.

Each operator becomes a product with a dequantised weight. If the weight is frozen, the
compiler reads it in its few bits.

The layout of 4 bits is that of PyTorch's kernel for this CPU: blocks of 16, 32 or 64
rows, each [columns][rows of the block / 2]. The first half of a block's rows is in the
low nibbles, the second half in the high ones; on some CPUs, and in a last block with
fewer rows, even rows are in the low nibbles and odd rows in the high ones."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

aten = torch.ops.aten
ZERO = 8  # the 4-bit integer whose value is zero
_PROBED_ROWS = 128  # more than any block has


def decompositions() -> dict[Any, Callable[..., Any]]:
    return {
        aten._weight_int8pack_mm.default: int8_product,
        aten._weight_int4pack_mm_for_cpu.default: int4_product,
        aten._convert_weight_to_int4pack_for_cpu.default: pack_int4,
    }


def int8_product(
    x: torch.Tensor, weight: torch.Tensor, scales: torch.Tensor
) -> torch.Tensor:
    """x [m, k] times the transpose of weight int8 [n, k], with scales [n]. Returns [m,
    n]."""
    wide = weight.float() * scales.float().unsqueeze(1)
    return torch.mm(x, wide.to(x.dtype).t())


def int4_product(
    x: torch.Tensor, packed: torch.Tensor, group: int, scale_and_zero: torch.Tensor
) -> torch.Tensor:
    """x [m, k] times a weight of 4 bits. Returns [m, n].

    packed          uint8 [n, k / 2]
    group           columns that share a scale
    scale_and_zero  [k / group, n, 2]: the scale, and the value that the integer 8 has
    """
    rows, columns = packed.shape[0], x.shape[1]
    whole = unpack_int4(packed).view(rows, columns // group, group)
    parameters = scale_and_zero.float().unbind(-1)
    scale, zero = (part.t().unsqueeze(-1) for part in parameters)
    weight = (whole.float() - ZERO) * scale + zero
    return torch.mm(x, weight.view(rows, columns).to(x.dtype).t())


def pack_int4(whole: torch.Tensor, inner_k_tiles: int) -> torch.Tensor:
    """Packs integers from 0 to 15: int32 [n, k] becomes uint8 [n, k / 2]."""
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
    """The inverse of pack_int4: uint8 [n, k / 2] becomes uint8 [n, k] from 0 to 15."""
    columns = packed.shape[1] * 2
    parts = []
    for part, block, halves in _blocks(packed):
        pairs = part.reshape(-1, columns, block // 2)
        nibbles = [pairs & 15, pairs >> 4]
        rows = torch.cat(nibbles, -1) if halves else torch.stack(nibbles, -1).flatten(2)
        parts.append(rows.transpose(1, 2).reshape(-1, columns))
    return torch.cat(parts) if len(parts) > 1 else parts[0]


def _blocks(rows: torch.Tensor) -> Iterator[tuple[torch.Tensor, int, bool]]:
    """The layout of packed rows in blocks.

    Three values: the rows in whole blocks and the rows of the last, smaller block; the
    rows of a block; whether the nibbles of a byte are rows of the block's two halves,
    or else neighbours.
    """
    block, halves = _layout()
    end = rows.shape[0] // block * block
    if end:
        yield rows[:end], block, halves
    if end < rows.shape[0]:
        yield rows[end:], rows.shape[0] - end, False


@functools.cache
def _layout() -> tuple[int, bool]:
    """The rows of a block, and whether the nibbles of a byte are of its two halves.
    PyTorch's kernels differ by processor, so the operator is asked: it packs a matrix
    whose second column, and one whose second row, begins with a one."""
    pack = aten._convert_weight_to_int4pack_for_cpu.default
    with _disable_current_modes():
        column, row = torch.zeros(2, _PROBED_ROWS, 32, dtype=torch.int32, device="cpu")
        column[0, 1] = row[1, 0] = 1
        second_column = int(pack(column, 1).flatten().nonzero())
        second_row = int(pack(row, 1).flatten().nonzero())
    return 2 * second_column, second_row != 0
