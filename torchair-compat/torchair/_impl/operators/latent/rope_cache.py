"""The new rows of the two caches of keys of latent attention.

After Ascend's API reference of torch_npu, page npu_kv_rmsnorm_rope_cache."""

from __future__ import annotations

import torch
from torch import Tensor

from ..caches.paged import put_rows
from ..checks import INTEGERS, check, check_dtype, check_shape
from ..definition import npu_operator
from ..positions.rotary import rotated_pairs
from ..quantisation.integers import to_int8
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
    operands = kv, gamma, cos, sin, index, k_cache, ckv_cache
    scales = k_rope_scale, c_kv_scale, k_rope_offset, c_kv_offset
    parts = _cached(name, *operands, *scales, epsilon, cache_mode, is_output_kv)
    return k_cache.clone(), ckv_cache.clone(), *parts


@npu_operator
def npu_kv_rmsnorm_rope_cache_v2(
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
    k_cache_dtype: Reserved[int | None] = None,
    ckv_cache_dtype: Reserved[int | None] = None,
) -> tuple[Tensor, Tensor]:
    """npu_kv_rmsnorm_rope_cache without copies of the caches: returns the rotated and the
    normalised part in kv's dtype with `is_output_kv`, else empty tensors. RuntimeError: as
    there."""
    name = "npu_kv_rmsnorm_rope_cache_v2"
    operands = kv, gamma, cos, sin, index, k_cache, ckv_cache
    scales = k_rope_scale, c_kv_scale, k_rope_offset, c_kv_offset
    return _cached(name, *operands, *scales, epsilon, cache_mode, is_output_kv)


@npu_operator
def npu_kv_rmsnorm_rope_cache_v2_functional(
    kv: Tensor,
    gamma: Tensor,
    cos: Tensor,
    sin: Tensor,
    index: Tensor,
    k_cache: Tensor,
    ckv_cache: Tensor,
    *,
    k_rope_scale: Tensor | None = None,
    c_kv_scale: Tensor | None = None,
    k_rope_offset: Tensor | None = None,
    c_kv_offset: Tensor | None = None,
    v: Reserved[Tensor | None] = None,
    epsilon: float = 1e-5,
    cache_mode: str = "Norm",
    is_output_kv: bool = False,
    k_cache_dtype: Reserved[int | None] = None,
    ckv_cache_dtype: Reserved[int | None] = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """npu_kv_rmsnorm_rope_cache_v2 of copies of the caches, which are returned after its
    results. RuntimeError: as there."""
    name = "npu_kv_rmsnorm_rope_cache_v2_functional"
    caches = k_cache.clone(), ckv_cache.clone()
    scales = k_rope_scale, c_kv_scale, k_rope_offset, c_kv_offset
    operands = kv, gamma, cos, sin, index, *caches
    parts = _cached(name, *operands, *scales, epsilon, cache_mode, is_output_kv)
    return *parts, *caches


def _cached(
    name: str,
    kv: Tensor,
    gamma: Tensor,
    cos: Tensor,
    sin: Tensor,
    index: Tensor,
    k_cache: Tensor,
    ckv_cache: Tensor,
    k_rope_scale: Tensor | None,
    c_kv_scale: Tensor | None,
    k_rope_offset: Tensor | None,
    c_kv_offset: Tensor | None,
    epsilon: float,
    cache_mode: str,
    is_output_kv: bool,
) -> tuple[Tensor, Tensor]:
    """Writes both caches. Returns the rotated and the normalised part in kv's dtype with
    `is_output_kv`, else empty tensors."""
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
    normed = rms(kv[..., :rank], gamma, epsilon)
    rotated = rotated_pairs(kv[..., rank:], cos, sin)
    for what, cache, part, scale in (
        ("k_cache", k_cache, rotated, k_rope_scale),
        ("ckv_cache", ckv_cache, normed, c_kv_scale),
    ):
        check_shape(scale, name, f"the scale of {what}", (part.shape[-1],))
        values = stored(name, what, cache, part, scale, kv.dtype)
        _write_cache(name, cache, values, index, cache_mode)
    if not is_output_kv:
        return kv.new_empty(0), kv.new_empty(0)
    return rotated.to(kv.dtype), normed.to(kv.dtype)


def rms(x: Tensor, gamma: Tensor, epsilon: float) -> Tensor:
    """The RMS norm, in f32."""
    wide = x.to(torch.float32)
    root = torch.rsqrt(wide.square().mean(-1, keepdim=True) + epsilon)
    return wide * root * gamma.to(torch.float32)


def stored(
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
        places = slots_of_pages(name, index, batch, length, cache.shape[1])
    else:
        check_shape(index, name, "index", (batch * length,))
    write_slots(name, cache, part.reshape(-1, width), places, mode.endswith("NZ"))


def slots_of_pages(
    name: str, index: Tensor, batch: int, length: int, size: int
) -> Tensor:
    """The slot of each token, from the first slot of each page of its sequence."""
    pages = -(-length // size)
    check_shape(index, name, "index", (batch * pages,))
    tokens = torch.arange(length, device=index.device)
    first = index.to(torch.int64).reshape(batch, pages)[:, tokens // size]
    slots = first // size * size + tokens % size
    return torch.where(first >= 0, slots, -1).reshape(-1)


def write_slots(
    name: str, cache: Tensor, rows: Tensor, slots: Tensor, blocks: bool
) -> None:
    """Writes rows (tokens, width) into a cache (blocks, block_size, 1, width)."""
    check(cache.shape[2] == 1, name, "a cache must have one head")
    count, size, _, width = cache.shape
    if blocks:
        last = 32 if cache.element_size() == 1 else 16
        fits = width % last == 0 and cache.is_contiguous()
        check(fits, name, f"a cache in blocks must have rows of a multiple of {last}")
        cache = cache.view(count, width // last, size, last).permute(0, 2, 1, 3)
    put_rows(cache, rows, slots, size)
