"""The steps that all versions of npu_mla_prolog share."""

from __future__ import annotations

import dataclasses

import torch
from torch import Tensor

from ..checks import INTEGERS, check, check_dtype, check_shape
from ..positions.rotary import rotated_pairs
from ..products.small_products import E8M0_BYTES
from .caches import Caches
from .products import MX_BLOCK, Quantised, mx_rows, product, quantised_rows
from .rope_cache import rms

__all__ = ["ALL", "FP8", "HIF8", "MX", "PLAIN", "UP", "Prolog"]

# Of weight_quant_mode: which weights are quantised, and to what.
PLAIN, UP, ALL, MX, FP8, HIF8 = range(6)
_ELEMENTS = {MX: torch.float8_e4m3fn, FP8: torch.float8_e4m3fn, HIF8: torch.uint8}
# For each, how the caches may be quantised: not, by one scale, by channel, by tile.
_CACHES = {
    PLAIN: (0,),
    UP: (0, 2, 3),
    ALL: (0, 1, 3),
    MX: (0, 1, 3),
    FP8: (0, 1, 3),
    HIF8: (0, 1, 3),
}


@dataclasses.dataclass
class Prolog:
    """The operands of one call, by the names of the operator's arguments."""

    name: str
    token_x: Tensor
    weight_dq: Tensor
    weight_uq_qr: Tensor
    weight_uk: Tensor
    weight_dkv_kr: Tensor
    rmsnorm_gamma_cq: Tensor
    rmsnorm_gamma_ckv: Tensor
    rope_sin: Tensor
    rope_cos: Tensor
    kv_cache: Tensor
    kr_cache: Tensor
    cache_index: Tensor | None = None
    dequant_scale_x: Tensor | None = None
    dequant_scale_w_dq: Tensor | None = None
    dequant_scale_w_uq_qr: Tensor | None = None
    dequant_scale_w_dkv_kr: Tensor | None = None
    quant_scale_ckv: Tensor | None = None
    quant_scale_ckr: Tensor | None = None
    smooth_scales_cq: Tensor | None = None
    actual_seq_len: Tensor | None = None
    k_nope_clip_alpha: Tensor | None = None
    rmsnorm_epsilon_cq: float = 1e-5
    rmsnorm_epsilon_ckv: float = 1e-5
    cache_mode: str = "PA_BSND"
    weight_quant_mode: int = 0
    kv_cache_quant_mode: int = 0
    query_quant_mode: int = 0
    tile_size: int = 128
    qc_qr_scale: float = 1.0
    kc_scale: float = 1.0

    @property
    def tokens(self) -> tuple[int, ...]:
        return tuple(self.token_x.shape[:-1])

    @property
    def kind(self) -> torch.dtype:
        """The dtype of everything that is not quantised."""
        return self.weight_uk.dtype

    def check(self) -> None:
        name = self.name
        check(len(self.tokens) in (1, 2), name, "token_x must have 2 or 3 dimensions")
        check(self.weight_uk.dim() == 3, name, "weight_uk must have 3 dimensions")
        heads, inner, rank = self.weight_uk.shape
        hidden, rotary = self.token_x.shape[-1], self.rope_cos.shape[-1]
        even = rotary % 2 == 0
        check(even, name, f"the rotated part must be even, got {rotary}")
        query_rank, wide = self.weight_dq.shape[-1], heads * (inner + rotary)
        rows = self.token_x.numel() // max(hidden, 1)
        scales = self._scale_shapes(rows, hidden, query_rank, wide, rank + rotary)
        for what, shape in (
            ("weight_dq", (hidden, query_rank)),
            ("weight_uq_qr", (query_rank, wide)),
            ("weight_dkv_kr", (hidden, rank + rotary)),
            ("rmsnorm_gamma_cq", (query_rank,)),
            ("rmsnorm_gamma_ckv", (rank,)),
            ("rope_cos", (*self.tokens, rotary)),
            ("rope_sin", (*self.tokens, rotary)),
            *scales,
            ("quant_scale_ckr", (1, rotary)),
            ("smooth_scales_cq", (1, query_rank)),
        ):
            check_shape(getattr(self, what), name, what, shape)
        check_shape(self.quant_scale_ckv, name, "quant_scale_ckv", (1, rank), (1,))
        self._check_dtypes()
        self._check_modes()

    def _scale_shapes(
        self, rows: int, hidden: int, query_rank: int, wide: int, narrow: int
    ) -> tuple[tuple[str, tuple[int, int]], ...]:
        """The shapes of the scales of operands: of rows and columns, or of their blocks."""
        names = [what for what in _SCALES if what.startswith("dequant_scale_")]
        columns = (query_rank, wide, narrow)
        if self.weight_quant_mode != MX:
            return tuple(zip(names, ((rows, 1), *((1, n) for n in columns))))
        for what, size in (("token_x", hidden), ("c", query_rank)):
            text = f"rows of {what} must have a multiple of {MX_BLOCK}, got {size}"
            check(size % MX_BLOCK == 0, self.name, text)
        depths = (hidden, hidden, query_rank, hidden)
        sizes = zip((rows, *columns), (k // MX_BLOCK for k in depths))
        return tuple(zip(names, sizes))

    def _check_dtypes(self) -> None:
        name, mode = self.name, self.weight_quant_mode
        floats = (torch.float16, torch.bfloat16, torch.float32)
        check_dtype(self.weight_uk, name, "weight_uk", floats)
        few = _ELEMENTS.get(mode, torch.int8)
        down = self.kind if mode in (PLAIN, UP) else few
        check_dtype(self.token_x, name, "token_x", (down,))
        for what, dtype in (
            ("weight_dq", down),
            ("weight_dkv_kr", down),
            ("weight_uq_qr", self.kind if mode == PLAIN else few),
        ):
            check_dtype(getattr(self, what), name, what, (dtype,))
        for what in _SCALES:
            mx = mode == MX and what.startswith("dequant_scale_")
            kinds = E8M0_BYTES if mx else (torch.float32,)
            check_dtype(getattr(self, what), name, what, kinds)
        check_dtype(self.cache_index, name, "cache_index", INTEGERS)

    def _check_modes(self) -> None:
        name, mode, kv = self.name, self.weight_quant_mode, self.kv_cache_quant_mode
        fits = kv in _CACHES[mode]
        text = f"kv_cache_quant_mode {kv} does not go with weight_quant_mode {mode}"
        check(fits, name, f"{text}: {self._what()}")
        needed = {
            "dequant_scale_w_uq_qr": mode >= UP,
            "dequant_scale_x": mode >= ALL,
            "dequant_scale_w_dq": mode >= ALL,
            "dequant_scale_w_dkv_kr": mode >= ALL,
            "quant_scale_ckv": kv in (1, 2),
            "quant_scale_ckr": kv == 2,
        }
        for what, wanted in needed.items():
            verb = "is needed" if wanted else "must be None"
            text = f"{what} {verb} for {self._what()}"
            check((getattr(self, what) is not None) == wanted, name, text)
        text = f"smooth_scales_cq must be None for {self._what()}"
        smooth = mode not in (PLAIN, MX)
        check(smooth or self.smooth_scales_cq is None, name, text)
        text = f"k_nope_clip_alpha must be None for {self._what()}"
        check(kv == 3 or self.k_nope_clip_alpha is None, name, text)

    def _what(self) -> str:
        weight, cache = self.weight_uq_qr.dtype, self.kv_cache.dtype
        return f"weight_uq_qr of {weight} and kv_cache of {cache}"

    def run(self) -> tuple[Tensor, Tensor, Tensor | None, Quantised]:
        """The queries, their rotary parts, their scales, and c^Q with its scales. Writes
        the caches."""
        heads, inner, rank = self.weight_uk.shape
        rotary = self.rope_cos.shape[-1]
        x = Quantised(self.token_x.reshape(-1, self.token_x.shape[-1]), None)
        if self.dequant_scale_x is not None:
            scale = self.dequant_scale_x
            scale = scale if self.weight_quant_mode == MX else scale.squeeze(-1)
            x = Quantised(x.values, scale)
        cos, sin = (t.reshape(-1, rotary) for t in (self.rope_cos, self.rope_sin))

        down = product(x, self.weight_dq, self.dequant_scale_w_dq)
        c = rms(down, self.rmsnorm_gamma_cq, self.rmsnorm_epsilon_cq) * self.qc_qr_scale
        norm = self._norm(c)
        up = product(norm, self.weight_uq_qr, self.dequant_scale_w_uq_qr)
        parts = up.unflatten(-1, (heads, inner + rotary))
        states = parts[..., :inner].to(self.kind).transpose(0, 1)
        query = torch.bmm(states, self.weight_uk).transpose(0, 1)
        turned = rotated_pairs(parts[..., inner:], cos.unsqueeze(1), sin.unsqueeze(1))
        scales = None
        if self.query_quant_mode == 1:
            made = quantised_rows(query.to(torch.float32), self.token_x.dtype)
            query, scales = made.values, made.scales
            assert scales is not None and self.quant_scale_ckv is not None
            # Scores of the rotary parts are in the units of those of the others.
            factor = self.quant_scale_ckv.reshape(-1)[0] / scales.unsqueeze(-1)
            turned = turned.to(self.kind).to(torch.float32) * factor

        latent = product(x, self.weight_dkv_kr, self.dequant_scale_w_dkv_kr)
        own = rms(latent[:, :rank], self.rmsnorm_gamma_ckv, self.rmsnorm_epsilon_ckv)
        self._caches().write(
            own * self.kc_scale, rotated_pairs(latent[:, rank:], cos, sin), self.tokens
        )
        return (
            query.contiguous().reshape(*self.tokens, heads, rank),
            turned.to(self.kind).reshape(*self.tokens, heads, rotary),
            scales,
            norm,
        )

    def _norm(self, c: Tensor) -> Quantised:
        """c^Q as its product reads it."""
        if self.weight_quant_mode == PLAIN:
            return Quantised(c.to(self.kind), None)
        if self.weight_quant_mode == MX:
            return mx_rows(c.to(torch.float32))
        if self.smooth_scales_cq is not None:
            c = c * self.smooth_scales_cq
        return quantised_rows(c, self.weight_uq_qr.dtype)

    def _caches(self) -> Caches:
        return Caches(
            self.name,
            self.kv_cache,
            self.kr_cache,
            self.cache_index,
            self.cache_mode,
            self.kv_cache_quant_mode,
            self.kind,
            self.quant_scale_ckv,
            self.quant_scale_ckr,
            self.actual_seq_len,
            self.k_nope_clip_alpha,
            self.tile_size,
        )


_SCALES = (
    "dequant_scale_x",
    "dequant_scale_w_dq",
    "dequant_scale_w_uq_qr",
    "dequant_scale_w_dkv_kr",
    "quant_scale_ckv",
    "quant_scale_ckr",
    "smooth_scales_cq",
    "k_nope_clip_alpha",
)
