"""The steps before multi-head latent attention: queries, and the two caches of keys.

After Ascend's API reference of torch_npu: pages npu_kv_rmsnorm_rope_cache and
npu_mla_prolog."""

from __future__ import annotations

import torch
from torch import Tensor

from ..caches.paged import put_rows
from ..checks import INTEGERS, check, check_dtype, check_shape
from ..definition import npu_operator
from ..products.quant_matmul import integer_product, scale_sums
from ..quantisation.integers import to_int8
from ..quantisation.rows import row_scale
from ..schema import Reserved, Written

_MODES = ("Norm", "PA", "PA_BNSD", "PA_NZ", "PA_BLK_BNSD", "PA_BLK_NZ")


@npu_operator
def npu_kv_rmsnorm_rope_cache(
    kv: Tensor,
    gamma: Tensor,
    cos: Tensor,
    sin: Tensor,
    index: Tensor,
    k_cache: Written,
    ckv_cache: Written,
    *,
    k_rope_scale: Tensor | None = None,
    c_kv_scale: Tensor | None = None,
    k_rope_offset: Tensor | None = None,
    c_kv_offset: Tensor | None = None,
    v: Reserved[Tensor | None] = None,
    epsilon: float = 1e-5,
    cache_mode: str = "Norm",
    is_output_kv: bool = False,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Splits kv into two parts, normalises one, rotates the other, and writes both to
    caches.

    kv        (b, 1, s, r + d)
    gamma     (r,): the first r elements get an RMS norm and go to ckv_cache
    cos, sin  (b, 1, s, d): the other d elements are rotated and go to k_cache: x cos +
              (-x2, x1) sin, where neighbours are the halves of pairs
    k_rope_scale, c_kv_scale  (d,) and (r,) f32: the caches are int8, the parts times
              these, rounded half to even and clamped
    cache_mode, index  where the parts go:

    - "Norm": caches (b, 1, length, ...); index (b, s) has the places in each batch.
    - "PA", "PA_BNSD": caches (blocks, block_size, 1, ...); index (b * s,) has slots,
      and negative ones are left out.
    - "PA_BLK_BNSD": the same caches; index (b * pages,) has the first slot of each page
      of a sequence.
    - "PA_NZ", "PA_BLK_NZ": the same, but the memory of a block is (elements / n,
      block_size, n), where n is 16, or 32 for int8.

    Returns copies of both caches; with `is_output_kv` also both parts in kv's dtype,
    else empty tensors. RuntimeError: another shape, dtype or mode, or an offset.
    """
    name = "npu_kv_rmsnorm_rope_cache"
    for what, given in (("k_rope_offset", k_rope_offset), ("c_kv_offset", c_kv_offset)):
        check(given is None, name, f"{what} must be None")
    known = cache_mode in _MODES
    check(known, name, f"cache_mode must be one of {_MODES}, got {cache_mode!r}")
    check_dtype(kv, name, "kv")
    check(gamma.dim() == 1, name, "gamma must have 1 dimension")
    rank = gamma.shape[0]
    right = kv.dim() == 4 and kv.shape[1] == 1 and kv.shape[3] > rank
    check(right, name, f"kv must be (b, 1, s, more than {rank}), got {tuple(kv.shape)}")
    batch, _, length, width = kv.shape
    rotary = width - rank
    check(rotary % 2 == 0, name, f"the rotated part must be even, got {rotary}")
    for what, table in (("cos", cos), ("sin", sin)):
        check_shape(table, name, what, (batch, 1, length, rotary))
    check_dtype(index, name, "index", INTEGERS)
    both = (k_rope_scale is None) == (c_kv_scale is None)
    check(both, name, "k_rope_scale and c_kv_scale must both be given, or none")
    normed = _rms(kv[..., :rank], gamma, epsilon)
    rotated = _rotated(kv[..., rank:], cos, sin)
    for what, cache, part, scale in (
        ("k_cache", k_cache, rotated, k_rope_scale),
        ("ckv_cache", ckv_cache, normed, c_kv_scale),
    ):
        check_shape(scale, name, f"the scale of {what}", (part.shape[-1],))
        values = _stored(name, what, cache, part, scale, kv.dtype)
        _write_cache(name, cache, values, index, cache_mode)
    if is_output_kv:
        outputs = rotated.to(kv.dtype), normed.to(kv.dtype)
    else:
        outputs = kv.new_empty(0), kv.new_empty(0)
    return k_cache.clone(), ckv_cache.clone(), *outputs


def _rms(x: Tensor, gamma: Tensor, epsilon: float) -> Tensor:
    """The RMS norm, in f32."""
    wide = x.to(torch.float32)
    root = torch.rsqrt(wide.square().mean(-1, keepdim=True) + epsilon)
    return wide * root * gamma.to(torch.float32)


def _rotated(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """The rotation, in f32: neighbours are the halves of pairs."""
    pairs = x.to(torch.float32).unflatten(-1, (-1, 2))
    left, right = pairs[..., 0], pairs[..., 1]
    halves, swapped = torch.cat([left, right], -1), torch.cat([-right, left], -1)
    return halves * cos.to(torch.float32) + swapped * sin.to(torch.float32)


def _stored(
    name: str,
    what: str,
    cache: Tensor,
    part: Tensor,
    scale: Tensor | None,
    kind: torch.dtype,
) -> Tensor:
    """The part as the cache keeps it: in the dtype `kind`, or int8 after the scale."""
    check_dtype(scale, name, f"the scale of {what}", (torch.float32,))
    check_dtype(cache, name, what, (kind if scale is None else torch.int8,))
    size = part.shape[-1]
    right = cache.dim() == 4 and cache.shape[3] == size
    check(right, name, f"{what} must have 4 dimensions, the last of {size}")
    return part.to(kind) if scale is None else to_int8(part * scale)


def _write_cache(
    name: str, cache: Tensor, part: Tensor, index: Tensor, mode: str
) -> None:
    batch, _, length, width = part.shape
    places = index.to(torch.int64)
    if mode == "Norm":
        check_shape(index, name, "index", (batch, length))
        check(cache.shape[:2] == (batch, 1), name, "a cache must have a row a batch")
        numbers = torch.arange(batch, device=index.device).unsqueeze(-1)
        rows = cache.squeeze(1)
        rows.index_put_((numbers.expand_as(places), places), part.squeeze(1))
        return
    if "BLK" in mode:
        places = _slots_of_pages(name, index, batch, length, cache.shape[1])
    else:
        check_shape(index, name, "index", (batch * length,))
    _write_slots(name, cache, part.reshape(-1, width), places, mode.endswith("NZ"))


def _slots_of_pages(
    name: str, index: Tensor, batch: int, length: int, size: int
) -> Tensor:
    """The slot of each token, from the first slot of each page of its sequence."""
    pages = -(-length // size)
    check_shape(index, name, "index", (batch * pages,))
    tokens = torch.arange(length, device=index.device)
    first = index.to(torch.int64).reshape(batch, pages)[:, tokens // size]
    slots = first // size * size + tokens % size
    return torch.where(first >= 0, slots, -1).reshape(-1)


def _write_slots(
    name: str, cache: Tensor, rows: Tensor, slots: Tensor, blocks: bool
) -> None:
    """Writes rows (tokens, width) into a cache (blocks, block_size, 1, width)."""
    check(cache.shape[2] == 1, name, "a cache must have one head")
    count, size, _, width = cache.shape
    if blocks:
        last = 32 if cache.dtype == torch.int8 else 16
        fits = width % last == 0 and cache.is_contiguous()
        check(fits, name, f"a cache in blocks must have rows of a multiple of {last}")
        cache = cache.view(count, width // last, size, last).permute(0, 2, 1, 3)
    put_rows(cache, rows, slots, size)


@npu_operator
def npu_mla_prolog(
    token_x: Tensor,
    weight_dq: Tensor,
    weight_uq_qr: Tensor,
    weight_uk: Tensor,
    weight_dkv_kr: Tensor,
    rmsnorm_gamma_cq: Tensor,
    rmsnorm_gamma_ckv: Tensor,
    rope_sin: Tensor,
    rope_cos: Tensor,
    cache_index: Tensor,
    kv_cache: Written,
    kr_cache: Written,
    *,
    dequant_scale_x: Tensor | None = None,
    dequant_scale_w_dq: Tensor | None = None,
    dequant_scale_w_uq_qr: Tensor | None = None,
    dequant_scale_w_dkv_kr: Tensor | None = None,
    quant_scale_ckv: Tensor | None = None,
    quant_scale_ckr: Tensor | None = None,
    smooth_scales_cq: Tensor | None = None,
    rmsnorm_epsilon_cq: float = 1e-5,
    rmsnorm_epsilon_ckv: float = 1e-5,
    cache_mode: str = "PA_BSND",
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The queries of latent attention, and the new rows of its two caches.

    With c = rms(x dq) and [q, r] = c uq_qr for each head: query = q uk and query_rope =
    rope(r). With [dkv, kr] = weight_dkv_kr: kv_cache gets rms(x dkv), and kr_cache gets
    rope(x kr). rope is the rotation of npu_kv_rmsnorm_rope_cache. Products are rounded
    to token_x's dtype; norms and rotations are in f32.

    token_x        (..., he), with one or two dimensions of tokens
    weight_dq      (he, hcq)
    weight_uq_qr   (hcq, n * (d + dr)). In int8 it needs `dequant_scale_w_uq_qr` (1, n *
                   (d + dr)); c then gets a scale for each row, after `smooth_scales_cq`
                   (1, hcq)
    weight_uk      (n, d, hckv)
    weight_dkv_kr  (he, hckv + dr)
    rmsnorm_gamma_cq, rmsnorm_gamma_ckv  (hcq,) and (hckv,)
    rope_sin, rope_cos  (..., dr)
    cache_index    (...): slots
    kv_cache, kr_cache  (blocks, block_size, 1, hckv) and (..., dr); with `cache_mode`
                   "PA_NZ" in blocks as npu_kv_rmsnorm_rope_cache has them
    quant_scale_ckv, quant_scale_ckr  (1, hckv) and (1, dr): the caches are int8

    Returns query (..., n, hckv), query_rope (..., n, dr) and copies of both caches.
    RuntimeError: another shape, dtype or mode.
    """
    name = "npu_mla_prolog"
    for what, given in (
        ("dequant_scale_x", dequant_scale_x),
        ("dequant_scale_w_dq", dequant_scale_w_dq),
        ("dequant_scale_w_dkv_kr", dequant_scale_w_dkv_kr),
    ):
        check(given is None, name, f"{what} must be None")
    known = cache_mode in ("PA_BSND", "PA_NZ")
    check(known, name, f"cache_mode must be PA_BSND or PA_NZ, got {cache_mode!r}")
    check_dtype(token_x, name, "token_x")
    tokens, kind = tuple(token_x.shape[:-1]), token_x.dtype
    check(len(tokens) in (1, 2), name, "token_x must have 2 or 3 dimensions")
    check(weight_uk.dim() == 3, name, "weight_uk must have 3 dimensions")
    heads, inner, rank = weight_uk.shape
    hidden, rotary, query_rank = (t.shape[-1] for t in (token_x, rope_cos, weight_dq))
    check(rotary % 2 == 0, name, f"the rotated part must be even, got {rotary}")
    wide = heads * (inner + rotary)
    for what, tensor, shape in (
        ("weight_dq", weight_dq, (hidden, query_rank)),
        ("weight_uq_qr", weight_uq_qr, (query_rank, wide)),
        ("weight_dkv_kr", weight_dkv_kr, (hidden, rank + rotary)),
        ("rmsnorm_gamma_cq", rmsnorm_gamma_cq, (query_rank,)),
        ("rmsnorm_gamma_ckv", rmsnorm_gamma_ckv, (rank,)),
        ("rope_cos", rope_cos, (*tokens, rotary)),
        ("rope_sin", rope_sin, (*tokens, rotary)),
        ("cache_index", cache_index, tokens),
        ("dequant_scale_w_uq_qr", dequant_scale_w_uq_qr, (1, wide)),
        ("quant_scale_ckv", quant_scale_ckv, (1, rank)),
        ("quant_scale_ckr", quant_scale_ckr, (1, rotary)),
        ("smooth_scales_cq", smooth_scales_cq, (1, query_rank)),
    ):
        check_shape(tensor, name, what, shape)
    check_dtype(cache_index, name, "cache_index", INTEGERS)
    for what, weight in (
        ("weight_dq", weight_dq),
        ("weight_uk", weight_uk),
        ("weight_dkv_kr", weight_dkv_kr),
    ):
        check_dtype(weight, name, what, (kind,))
    scales = dequant_scale_w_uq_qr, quant_scale_ckv, quant_scale_ckr, smooth_scales_cq
    _check_scales(name, weight_uq_qr, kind, *scales)

    flat = token_x.reshape(-1, hidden)
    cos, sin = (t.reshape(-1, rotary) for t in (rope_cos, rope_sin))
    compressed = _rms(flat @ weight_dq, rmsnorm_gamma_cq, rmsnorm_epsilon_cq)
    up = _up(compressed, weight_uq_qr, dequant_scale_w_uq_qr, smooth_scales_cq, kind)
    parts = up.unflatten(-1, (heads, inner + rotary))
    query = torch.bmm(parts[..., :inner].transpose(0, 1), weight_uk).transpose(0, 1)
    rope = _rotated(parts[..., inner:], cos.unsqueeze(1), sin.unsqueeze(1)).to(kind)
    latent = flat @ weight_dkv_kr
    normed = _rms(latent[:, :rank], rmsnorm_gamma_ckv, rmsnorm_epsilon_ckv)
    slots = cache_index.to(torch.int64).reshape(-1)
    for what, cache, part, scale in (
        ("kv_cache", kv_cache, normed, quant_scale_ckv),
        ("kr_cache", kr_cache, _rotated(latent[:, rank:], cos, sin), quant_scale_ckr),
    ):
        values = _stored(name, what, cache, part, scale, kind)
        _write_slots(name, cache, values, slots, cache_mode == "PA_NZ")
    return (
        query.contiguous().reshape(*tokens, heads, rank),
        rope.reshape(*tokens, heads, rotary),
        kv_cache.clone(),
        kr_cache.clone(),
    )


def _check_scales(
    name: str,
    weight: Tensor,
    kind: torch.dtype,
    dequant: Tensor | None,
    ckv: Tensor | None,
    ckr: Tensor | None,
    smooth: Tensor | None,
) -> None:
    check_dtype(weight, name, "weight_uq_qr", (kind, torch.int8))
    both = (ckv is None) == (ckr is None)
    check(both, name, "quant_scale_ckv and quant_scale_ckr must both be given, or none")
    if weight.dtype == torch.int8:
        text = "a weight_uq_qr of int8 needs dequant_scale_w_uq_qr"
        check(dequant is not None, name, text)
        return
    for what, given in (
        ("dequant_scale_w_uq_qr", dequant),
        ("smooth_scales_cq", smooth),
        ("quant_scale_ckv", ckv),
    ):
        check(given is None, name, f"{what} needs a weight_uq_qr of int8")


def _up(
    compressed: Tensor,
    weight: Tensor,
    scale: Tensor | None,
    smooth: Tensor | None,
    kind: torch.dtype,
) -> Tensor:
    """The product with a weight that may be int8; then each row gets a scale."""
    if scale is None:
        return compressed.to(kind) @ weight
    if smooth is not None:
        compressed = compressed * smooth.to(torch.float32)
    rows, factor = row_scale(compressed)
    return scale_sums(integer_product(rows, weight), scale, factor, None).to(kind)
