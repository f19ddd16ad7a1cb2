"""Bits that say which elements a dropout keeps, from a seed and an offset.

The numbers are those of Philox 4x32-10 (Salmon et al., Parallel Random Numbers: As Easy
as 1, 2, 3): element i takes word i % 4 of the counter offset + i / 4, with the seed as
the key. An NPU may give the words to other elements."""

from __future__ import annotations

import torch
from torch import Tensor

from ..checks import check
from ..definition import npu_operator

_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_KEY_STEPS = (0x9E3779B9, 0xBB67AE85)
_ROUNDS = 10
_WORD = 0xFFFFFFFF
_ALIGNED = 128  # elements; a mask has whole groups of so many bits


def kept_elements(numels: int, keep_prob: float, seed: Tensor, offset: int) -> Tensor:
    """Which of `numels` elements stay, each with the chance `keep_prob`: bool.

    seed  an int64 of one element
    """
    words = _philox(-(-numels // 4), seed, offset).flatten()[:numels]
    return words < round(keep_prob * 2**32)


def _philox(count: int, seed: Tensor, offset: int) -> Tensor:
    """(count, 4) int64 with the four words of each counter from `offset` on."""
    counter = torch.arange(count, device=seed.device) + offset
    words = [counter & _WORD, (counter >> 32) & _WORD]
    words += [torch.zeros_like(counter)] * 2
    keys = [seed & _WORD, (seed >> 32) & _WORD]
    for _ in range(_ROUNDS):
        high = [_upper(m, words[place]) for m, place in zip(_MULTIPLIERS, (0, 2))]
        low = [m * words[place] & _WORD for m, place in zip(_MULTIPLIERS, (0, 2))]
        words = [
            high[1] ^ words[1] ^ keys[0],
            low[1],
            high[0] ^ words[3] ^ keys[1],
            low[0],
        ]
        keys = [(key + step) & _WORD for key, step in zip(keys, _KEY_STEPS)]
    return torch.stack(words, -1)


def _upper(multiplier: int, word: Tensor) -> Tensor:
    """The upper 32 bits of the product of 32-bit numbers, in signed 64-bit numbers."""
    carry = multiplier * (word & 0xFFFF) >> 16
    return (multiplier * (word >> 16) + carry) >> 16


@npu_operator
def _npu_dropout_gen_mask(
    self: Tensor,
    size: list[int],
    p: float,
    seed: int,
    offset: int,
    parallel: bool | None = True,
    sync: bool | None = False,
) -> Tensor:
    """A bit for each element of a tensor of this size: 1 where it stays, with the
    chance 1 - p. uint8, the first element in the lowest bit, filled up to a multiple of
    128 bits. `parallel` and `sync` change nothing. RuntimeError: p is no probability."""
    check(0 <= p <= 1, "_npu_dropout_gen_mask", f"p must be from 0 to 1, got {p}")
    numels = torch.Size(size).numel()
    key = torch.full((1,), seed, dtype=torch.int64, device=self.device)
    kept = kept_elements(numels, 1 - p, key, offset)
    kept = torch.nn.functional.pad(kept, (0, -numels % _ALIGNED))
    shifts = torch.arange(8, dtype=torch.uint8, device=self.device)
    return (
        (kept.unflatten(0, (-1, 8)).to(torch.uint8) << shifts).sum(-1).to(torch.uint8)
    )


def mask_bytes(numels: int) -> int:
    """How many bytes the mask of so many elements has."""
    return -(-numels // _ALIGNED) * _ALIGNED // 8


def mask_bits(mask: Tensor, numels: int) -> Tensor:
    """The bits of a mask, as bool."""
    shifts = torch.arange(8, dtype=torch.uint8, device=mask.device)
    return ((mask.unsqueeze(-1) >> shifts) & 1).flatten()[:numels].to(torch.bool)
