"""How npu_mla_prolog and its versions write their two caches."""

from __future__ import annotations

import dataclasses

import torch
from torch import Tensor

from ..checks import check, check_dtype, check_shape
from ..quantisation.bytes import to_bytes
from ..quantisation.rows import group_of_rows
from .products import FLOATS_OF_EIGHT, stored_as, tiles
from .rope_cache import slots_of_pages, write_slots

__all__ = ["MODES", "Caches"]

MODES = ("PA_BSND", "PA_NZ", "PA_BLK_BSND", "PA_BLK_NZ", "BSND", "TND")
_TENSOR, _CHANNEL, _TILE = 1, 2, 3  # kv_cache_quant_mode


@dataclasses.dataclass(frozen=True)
class Caches:
    """Both caches of a call, where new rows go, and how they are quantised."""

    name: str
    kv: Tensor
    kr: Tensor
    index: Tensor | None
    mode: str
    quant: int
    kind: torch.dtype  # of rows that are not quantised
    scale_kv: Tensor | None
    scale_kr: Tensor | None
    ends: Tensor | None  # of sequences, for pages without a batch
    alpha: Tensor | None
    tile: int

    def write(self, own: Tensor, rotated: Tensor, tokens: tuple[int, ...]) -> None:
        """Writes the rows (t, elements) in f32 of `tokens`, (t,) or (b, s)."""
        few = self.kv.dtype
        if self.quant == _TILE:
            self._write("kv_cache", self.kv, self._packed(own, rotated), tokens)
            return
        if self.scale_kv is not None:
            check(few != self.kind, self.name, "quant_scale_ckv needs a small kv_cache")
            own = stored_as(own * self.scale_kv, few)
        if self.scale_kr is not None:
            rotated = stored_as(rotated * self.scale_kr, self.kr.dtype)
        for what, cache, rows, quantised in (
            ("kv_cache", self.kv, own, self.scale_kv is not None),
            ("kr_cache", self.kr, rotated, self.scale_kr is not None),
        ):
            if not quantised:
                check_dtype(cache, self.name, what, (self.kind,))
            self._write(what, cache, rows.to(cache.dtype), tokens)

    def _packed(self, own: Tensor, rotated: Tensor) -> Tensor:
        """Bytes of quantised elements, of rotary elements, and of the scales of tiles."""
        name, kind = self.name, self.kv.dtype
        check_dtype(self.kv, name, "kv_cache", (torch.int8, *FLOATS_OF_EIGHT))
        width = own.shape[-1]
        fits = self.tile > 0 and width % self.tile == 0
        text = f"tile_size {self.tile} does not divide {width} elements of kv_cache"
        check(fits, name, text)
        check_shape(self.alpha, name, "k_nope_clip_alpha", (1,))
        made = tiles(own, kind, self.tile, self.alpha)
        assert made.scales is not None
        parts = made.values, rotated.to(self.kind), made.scales
        return torch.cat([to_bytes(part) for part in parts], -1).view(kind)

    def _write(
        self, what: str, cache: Tensor, rows: Tensor, tokens: tuple[int, ...]
    ) -> None:
        name, width = self.name, rows.shape[-1]
        if self.mode in ("BSND", "TND"):
            dims = 2 if self.mode == "BSND" else 1
            text = f"cache_mode {self.mode} needs token_x of {dims + 1} dimensions"
            check(len(tokens) == dims, name, text)
            check(self.index is None, name, f"cache_mode {self.mode}: no cache_index")
            check_shape(cache, name, what, (*tokens, 1, width))
            cache.copy_(rows.reshape(cache.shape))
            return
        right = cache.dim() == 4 and cache.shape[3] == width
        text = f"{what} must have 4 dimensions, the last of {width}"
        check(right, name, text)
        slots = self._slots(cache.shape[1], tokens)
        write_slots(name, cache, rows, slots, self.mode.endswith("NZ"))

    def _slots(self, size: int, tokens: tuple[int, ...]) -> Tensor:
        """The slot of each token."""
        name, index = self.name, self.index
        check(index is not None, name, f"cache_mode {self.mode} needs cache_index")
        assert index is not None
        if "BLK" not in self.mode:
            check_shape(index, name, "cache_index", tokens)
            return index.to(torch.int64).reshape(-1)
        if len(tokens) == 2:
            batch, length = tokens
            check_shape(index, name, "cache_index", (batch, -(-length // size)))
            return slots_of_pages(name, (index * size).reshape(-1), batch, length, size)
        text = (
            f"cache_mode {self.mode} of a token_x without a batch needs actual_seq_len"
        )
        check(self.ends is not None, name, text)
        assert self.ends is not None
        ends = self.ends.to(torch.int64)
        starts = torch.cat([ends.new_zeros(1), ends[:-1]])
        pages = (ends - starts + size - 1) // size
        numbers = torch.arange(tokens[0], device=index.device)
        sequence = group_of_rows(ends, tokens[0])
        inside = sequence < ends.shape[0]
        sequence = sequence.clamp(max=ends.shape[0] - 1)
        place = numbers - starts[sequence]
        page = (pages.cumsum(0) - pages)[sequence] + place // size
        first = index.to(torch.int64).reshape(-1)[page.clamp(max=index.numel() - 1)]
        return torch.where(inside, first * size + place % size, -1)
