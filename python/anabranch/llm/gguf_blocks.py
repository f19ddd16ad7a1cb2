"""The blocks of a GGUF file as integers of 4 or 8 bits with scales and offsets.

A block is a row of bytes: f16 numbers, then integers whose bits are spread over
fields of its bytes (https://github.com/ggml-org/ggml, src/ggml-common.h). The
dequantised weight has the roundings of `gguf.dequantize`: both are equal bit by bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import torch

from .quantized_layers import QuantizedWeight

# Elements that are unpacked at once: a large table then needs little more memory.
CHUNK = 1 << 24


class _Blocks(NamedTuple):
    """Of each block: integers [blocks, elements], scales and offsets [blocks, groups]."""

    integers: torch.Tensor
    scale: torch.Tensor
    offset: torch.Tensor | None = None


Unpack: TypeAlias = Callable[[torch.Tensor], _Blocks]


class _Type(NamedTuple):
    block_bytes: int
    bits: int
    center: int
    unpack: Unpack


def is_packed(name: str) -> bool:
    """Whether blocks of this type ("Q4_1") become integers of few bits."""
    return name in _TYPES


def unpack(blocks: torch.Tensor, name: str) -> QuantizedWeight:
    """The weight of rows of blocks, uint8 [rows, bytes of a row], of a type for which
    `is_packed` holds."""
    kind, rows = _TYPES[name], blocks.shape[0]
    flat = blocks.reshape(-1, kind.block_bytes)
    per_chunk = max(1, CHUNK // 256)
    parts = [_stored(kind, part) for part in flat.split(per_chunk)]
    integers, scale = (
        torch.cat([part[i] for part in parts]).view(rows, -1) for i in (0, 1)
    )
    offsets = [part.offset for part in parts if part.offset is not None]
    offset = torch.cat(offsets).view(rows, -1) if offsets else None
    return QuantizedWeight(integers, scale, offset, kind.center)


def _stored(kind: _Type, blocks: torch.Tensor) -> _Blocks:
    found = kind.unpack(blocks)
    whole = found.integers
    if kind.bits == 8:
        return found._replace(integers=whole.view(torch.int8))
    return found._replace(integers=whole[:, ::2] | whole[:, 1::2] << 4)


def _fields(data: torch.Tensor, bits: int, width: int) -> torch.Tensor:
    """The fields of `bits` bits of each byte: the lowest of `width` bytes, then the
    next ones of the same bytes, and so on for the next `width` bytes."""
    shifts = torch.arange(0, 8, bits, dtype=torch.uint8).view(-1, 1)
    parts = data.reshape(data.shape[0], -1, 1, width) >> shifts
    return parts.bitwise_and_((1 << bits) - 1).flatten(1)


def _halves(blocks: torch.Tensor, at: int) -> torch.Tensor:
    """The number at a byte of each block, float16 [blocks, 1]."""
    return blocks[:, at : at + 2].contiguous().view(torch.float16)


def _q4_0(blocks: torch.Tensor) -> _Blocks:
    return _Blocks(_fields(blocks[:, 2:], 4, 16), _halves(blocks, 0))


def _q4_1(blocks: torch.Tensor) -> _Blocks:
    whole = _fields(blocks[:, 4:], 4, 16)
    return _Blocks(whole, _halves(blocks, 0), _halves(blocks, 2))


def _q5_0(blocks: torch.Tensor) -> _Blocks:
    high = _fields(blocks[:, 2:6], 1, 1) << 4
    whole = _fields(blocks[:, 6:], 4, 16) | high
    return _Blocks(whole - 16, _halves(blocks, 0))


def _q5_1(blocks: torch.Tensor) -> _Blocks:
    high = _fields(blocks[:, 4:8], 1, 1) << 4
    whole = _fields(blocks[:, 8:], 4, 16) | high
    return _Blocks(whole, _halves(blocks, 0), _halves(blocks, 2))


def _q8_0(blocks: torch.Tensor) -> _Blocks:
    return _Blocks(blocks[:, 2:], _halves(blocks, 0))


def _q2_k(blocks: torch.Tensor) -> _Blocks:
    scales, whole = blocks[:, :16], _fields(blocks[:, 16:80], 2, 32)
    scale = _halves(blocks, 80).float() * (scales & 15).float()
    offset = _halves(blocks, 82).float() * (scales >> 4).float()
    return _Blocks(whole, scale, -offset)


def _q3_k(blocks: torch.Tensor) -> _Blocks:
    high = _fields(blocks[:, :32], 1, 32) << 2
    whole = _fields(blocks[:, 32:96], 2, 32) | high
    scales = _fields(blocks[:, 96:104], 4, 8) | _fields(blocks[:, 104:108], 2, 4) << 4
    return _Blocks(whole, _halves(blocks, 108).float() * (scales.float() - 32))


def _q4_k(blocks: torch.Tensor) -> _Blocks:
    return _Blocks(_fields(blocks[:, 16:], 4, 32), *_k_scales(blocks))


def _q5_k(blocks: torch.Tensor) -> _Blocks:
    high = _fields(blocks[:, 16:48], 1, 32) << 4
    return _Blocks(_fields(blocks[:, 48:], 4, 32) | high, *_k_scales(blocks))


def _k_scales(blocks: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Scales and offsets of Q4_K and Q5_K: eight of six bits each in twelve bytes. The
    first four of either are the low bits of a byte; those of the others are in the
    last four bytes, with their high two bits above the first ones'."""
    first, second, third = blocks[:, 4:16].split(4, 1)
    scale = torch.cat([first & 63, third & 15 | (first >> 6) << 4], 1).float()
    offset = torch.cat([second & 63, third >> 4 | (second >> 6) << 4], 1).float()
    return _halves(blocks, 0).float() * scale, -(_halves(blocks, 2).float() * offset)


def _q6_k(blocks: torch.Tensor) -> _Blocks:
    high = _fields(blocks[:, 128:192], 2, 32) << 4
    whole = _fields(blocks[:, :128], 4, 64) | high
    scales = blocks[:, 192:208].contiguous().view(torch.int8).float()
    return _Blocks(whole - 32, _halves(blocks, 208).float() * scales)


_TYPES = {
    "Q4_0": _Type(18, 4, 8, _q4_0),
    "Q4_1": _Type(20, 4, 0, _q4_1),
    "Q5_0": _Type(22, 8, 0, _q5_0),
    "Q5_1": _Type(24, 8, 0, _q5_1),
    "Q8_0": _Type(34, 8, 0, _q8_0),
    "Q2_K": _Type(84, 4, 0, _q2_k),
    "Q3_K": _Type(110, 4, 4, _q3_k),
    "Q4_K": _Type(144, 4, 0, _q4_k),
    "Q5_K": _Type(176, 8, 0, _q5_k),
    "Q6_K": _Type(210, 8, 0, _q6_k),
}
