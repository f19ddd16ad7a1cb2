"""Operators that write keys and values into caches.

After Ascend's API reference of torch_npu, pages npu_kv_rmsnorm_rope_cache,
npu_scatter_pa_kv_cache, npu_quant_scatter and npu_group_quant, and the reference of the
transformer boost library, page ReshapeAndCache, for the layout FRACTAL_NZ.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ..library import FLOATS, check, check_dtype, check_shape, operator, to_int8
from ..quantise import npu_quantize
from ..scatter import scatter_update, scatter_update_

_INTEGERS = (torch.int32, torch.int64)
_CACHED = (*FLOATS, torch.int8)


@operator(
    "(Tensor key, Tensor value, Tensor(a!) key_cache, Tensor(b!) value_cache,"
    " Tensor slot_mapping, *, Tensor? compress_lens=None,"
    " Tensor? compress_seq_offsets=None, Tensor? seq_lens=None) -> ()"
)
def npu_scatter_pa_kv_cache(
    key: Tensor,
    value: Tensor,
    key_cache: Tensor,
    value_cache: Tensor,
    slot_mapping: Tensor,
    *,
    compress_lens: Tensor | None = None,
    compress_seq_offsets: Tensor | None = None,
    seq_lens: Tensor | None = None,
) -> None:
    """Writes key and value (tokens, heads, dim) to the slots of their caches, in place:
    slot_mapping (tokens,) numbers the slots of all blocks. A cache is (blocks, block_size,
    heads, dim), or in FRACTAL_NZ (blocks, heads * dim / n, block_size, n), n being 16, or 32
    for int8. A negative slot is left out. RuntimeError for other shapes or dtypes;
    NotImplementedError for compressed caches."""
    name = "npu_scatter_pa_kv_cache"
    for what, given in (
        ("compress_lens", compress_lens),
        ("compress_seq_offsets", compress_seq_offsets),
        ("seq_lens", seq_lens),
    ):
        if given is not None:
            raise NotImplementedError(f"{name}: {what}: compressed caches")
    check_dtype(slot_mapping, name, "slot_mapping", _INTEGERS)
    for what, rows, cache in (
        ("key", key, key_cache),
        ("value", value, value_cache),
    ):
        check_dtype(rows, name, what, _CACHED)
        check_dtype(cache, name, f"{what}_cache", (rows.dtype,))
        check(rows.dim() == 3, name, f"{what} must have 3 dimensions, got {rows.dim()}")
        check_shape(slot_mapping, name, "slot_mapping", (rows.shape[0],))
        _write_slots(name, what, rows, cache, slot_mapping.to(torch.int64))


def _write_slots(
    name: str, what: str, rows: Tensor, cache: Tensor, slots: Tensor
) -> None:
    check(cache.dim() == 4, name, f"{what}_cache must have 4 dimensions")
    plain = tuple(cache.shape[2:]) == tuple(rows.shape[1:])
    last = 32 if rows.dtype == torch.int8 else 16
    width = rows.shape[1] * rows.shape[2]
    blocked = cache.shape[3] == last and cache.shape[1] * last == width
    check(
        plain or blocked,
        name,
        f"{what}_cache of shape {tuple(cache.shape)} does not take {what} of"
        f" {tuple(rows.shape)}",
    )
    size = cache.shape[1] if plain else cache.shape[2]
    _put(cache if plain else cache.permute(0, 2, 1, 3), rows, slots, size)


def _put(cache: Tensor, rows: Tensor, slots: Tensor, size: int) -> None:
    """Row i goes to the slot, block and place in it; one of a negative slot to where
    another row goes, with the value that is there."""
    rows = rows.reshape(rows.shape[0], *cache.shape[2:])
    wanted = slots >= 0
    safe = torch.where(wanted, slots, 0)
    block, place = safe // size, safe % size
    first = (wanted & (slots == 0)).unsqueeze(-1)
    kept = cache[block, place]
    shape = [-1] + [1] * (rows.dim() - 1)
    # Slot 0 may be written by another row: then those that are left out write the same.
    zero = torch.where(first.reshape(shape), rows, torch.zeros_like(rows)).sum(
        0, dtype=rows.dtype
    )
    stays = torch.where(first.any(), zero.unsqueeze(0), kept)
    updates = torch.where(wanted.reshape(shape), rows, stays)
    cache.index_put_((block, place), updates)


@operator(
    "(Tensor kv, Tensor gamma, Tensor cos, Tensor sin, Tensor index,"
    " Tensor(a!) k_cache, Tensor(b!) ckv_cache, *, Tensor? k_rope_scale=None,"
    " Tensor? c_kv_scale=None, Tensor? k_rope_offset=None, Tensor? c_kv_offset=None,"
    " float epsilon=1e-05, str cache_mode='Norm', bool is_output_kv=False)"
    " -> (Tensor, Tensor, Tensor, Tensor)"
)
def npu_kv_rmsnorm_rope_cache(
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
    epsilon: float = 1e-5,
    cache_mode: str = "Norm",
    is_output_kv: bool = False,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Splits kv (b, 1, s, r + d) into the first r = len(gamma) elements, which get an RMS
    norm, and d that are rotated: neighbours are halves of pairs, x cos + (-x2, x1) sin, with
    cos and sin (b, 1, s, d). Writes the d to k_cache and the r to ckv_cache, in place, and
    returns copies of both, and with `is_output_kv` what was written to each, else empty.

    `cache_mode` "Norm": caches (b, 1, length, ...), index (b, s) places in each batch.
    "PA", "PA_BNSD": caches (blocks, block_size, 1, ...), index (b * s,) slots, negative ones
    left out. RuntimeError for other shapes or dtypes; NotImplementedError for quantised
    caches and other modes."""
    name = "npu_kv_rmsnorm_rope_cache"
    if any(
        v is not None for v in (k_rope_scale, c_kv_scale, k_rope_offset, c_kv_offset)
    ):
        raise NotImplementedError(f"{name}: quantised caches")
    if cache_mode not in ("Norm", "PA", "PA_BNSD"):
        raise NotImplementedError(f"{name}: cache_mode {cache_mode!r}")
    check_dtype(kv, name, "kv")
    check(gamma.dim() == 1, name, "gamma must have 1 dimension")
    rank = gamma.shape[0]
    right = kv.dim() == 4 and kv.shape[1] == 1 and kv.shape[3] > rank
    check(right, name, f"kv must be (b, 1, s, more than {rank}), got {tuple(kv.shape)}")
    batch, _, length, width = kv.shape
    turned = width - rank
    check(turned % 2 == 0, name, f"the rotated part must be even, got {turned}")
    for what, table in (("cos", cos), ("sin", sin)):
        check_shape(table, name, what, (batch, 1, length, turned))
    check_dtype(index, name, "index", _INTEGERS)
    for what, cache, size in (
        ("k_cache", k_cache, turned),
        ("ckv_cache", ckv_cache, rank),
    ):
        check_dtype(cache, name, what, (kv.dtype,))
        right = cache.dim() == 4 and cache.shape[3] == size
        check(right, name, f"{what} must have 4 dimensions, the last of {size}")
    normed = _rms(kv[..., :rank], gamma, epsilon)
    rotated = _rotated(kv[..., rank:], cos, sin)
    for cache, part in ((k_cache, rotated), (ckv_cache, normed)):
        _write_cache(name, cache, part, index, cache_mode)
    empty = kv.new_empty(0)
    more = (rotated, normed) if is_output_kv else (empty, empty.clone())
    return k_cache.clone(), ckv_cache.clone(), *more


def _rms(x: Tensor, gamma: Tensor, epsilon: float) -> Tensor:
    wide = x.to(torch.float32)
    root = torch.rsqrt(wide.square().mean(-1, keepdim=True) + epsilon)
    return (wide * root * gamma.to(torch.float32)).to(x.dtype)


def _rotated(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    pairs = x.to(torch.float32).unflatten(-1, (-1, 2))
    left, right = pairs[..., 0], pairs[..., 1]
    halves, swapped = torch.cat([left, right], -1), torch.cat([-right, left], -1)
    found = halves * cos.to(torch.float32) + swapped * sin.to(torch.float32)
    return found.to(x.dtype)


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
    check_shape(index, name, "index", (batch * length,))
    check(cache.shape[2] == 1, name, "a cache must have one head")
    _put(cache, part.reshape(-1, 1, width), places, cache.shape[1])


@operator(
    "(Tensor x, Tensor scale, Tensor group_index, *, Tensor? offset=None,"
    " ScalarType? dst_dtype=None) -> Tensor"
)
def npu_group_quant(
    x: Tensor,
    scale: Tensor,
    group_index: Tensor,
    *,
    offset: Tensor | None = None,
    dst_dtype: torch.dtype | None = None,
) -> Tensor:
    """x (rows, h) times the scale of each row's group (groups, h), plus `offset` (1,),
    rounded half to even and clamped to int8. group_index (groups,) has the row behind each
    group. RuntimeError for other shapes or dtypes."""
    name = "npu_group_quant"
    check_dtype(x, name, "x")
    check_dtype(group_index, name, "group_index", _INTEGERS)
    check(x.dim() == 2, name, f"x must have 2 dimensions, got {x.dim()}")
    check(dst_dtype in (None, torch.int8), name, f"dst_dtype must be int8: {dst_dtype}")
    groups = group_index.shape[0]
    check_shape(scale, name, "scale", (groups, x.shape[1]))
    check_shape(offset, name, "offset", (1,), ())
    rows = torch.arange(x.shape[0], device=x.device)
    group = torch.bucketize(rows, group_index.to(torch.int64), right=True)
    table = scale.to(torch.float32)[group.clamp(max=groups - 1)]
    values = x.to(torch.float32) * table
    return to_int8(values if offset is None else values + offset.to(torch.float32))


def _quantised(
    updates: Tensor, scales: Tensor, points: Tensor | None, axis: int
) -> Tensor:
    return npu_quantize(updates, scales, points, torch.qint8, axis, True)


@operator(
    "(Tensor self, Tensor indices, Tensor updates, Tensor quant_scales,"
    " Tensor? quant_zero_points=None, *, int axis=0, int quant_axis=1,"
    " str reduce='update') -> Tensor"
)
def npu_quant_scatter(
    self: Tensor,
    indices: Tensor,
    updates: Tensor,
    quant_scales: Tensor,
    quant_zero_points: Tensor | None = None,
    *,
    axis: int = 0,
    quant_axis: int = 1,
    reduce: str = "update",
) -> Tensor:
    """scatter_update of `self`, int8, with updates that npu_quantize makes int8 along
    `quant_axis`. RuntimeError as those raise, and for another `reduce`."""
    check(reduce == "update", "npu_quant_scatter", f"no such reduce: {reduce!r}")
    rows = _quantised(updates, quant_scales, quant_zero_points, quant_axis)
    return scatter_update(self, indices, rows, axis)


@operator(
    "(Tensor(a!) self, Tensor indices, Tensor updates, Tensor quant_scales,"
    " Tensor? quant_zero_points=None, *, int axis=0, int quant_axis=1,"
    " str reduce='update') -> Tensor(a!)"
)
def npu_quant_scatter_(
    self: Tensor,
    indices: Tensor,
    updates: Tensor,
    quant_scales: Tensor,
    quant_zero_points: Tensor | None = None,
    *,
    axis: int = 0,
    quant_axis: int = 1,
    reduce: str = "update",
) -> Tensor:
    """npu_quant_scatter into `self`. Raises RuntimeError."""
    check(reduce == "update", "npu_quant_scatter_", f"no such reduce: {reduce!r}")
    rows = _quantised(updates, quant_scales, quant_zero_points, quant_axis)
    return scatter_update_(self, indices, rows, axis)
