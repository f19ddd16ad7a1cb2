"""Splits a projection into queries, keys and values, rotates the first two, and writes keys
and values as int8 into their caches.

After the schemas and tests of op-plugin's operators npu_rope_quant_kvcache and
npu_dequant_rope_quant_kvcache."""

from __future__ import annotations

from typing import Annotated, NamedTuple

import torch
from torch import Tensor

from ..caches.paged import put_rows
from ..checks import INTEGERS, check, check_dtype, check_shape
from ..definition import npu_operator
from ..quantisation.integers import to_int8
from ..quantisation.sums import dequantised
from ..schema import Written

_HALF = (torch.float16, torch.bfloat16)
Splits = Annotated[list[int], "int[3]"]
_Made = tuple[Tensor, Tensor, Tensor, Tensor, Tensor]


class _Cache(NamedTuple):
    """One of the two caches, and how its rows become int8."""

    what: str
    memory: Tensor
    scale: Tensor
    offset: Tensor | None

    def write(self, name: str, rows: Tensor, indices: Tensor, paged: bool) -> None:
        """Writes rows (b, s, heads, d)."""
        batch, length, heads, width = rows.shape
        cache, full = self.memory, f"{self.what}_cache"
        check_dtype(cache, name, full, (torch.int8,))
        first = cache.shape[0] if paged else batch
        shape = (first, cache.shape[1], heads, width)
        check_shape(cache, name, full, shape)
        scale, offset = self._factors(name, heads, width)
        stored = rows.to(torch.float32) * scale
        stored = to_int8(stored if offset is None else stored + offset)
        if paged:
            check_shape(indices, name, "indices", (batch * length,))
            slots = indices.to(torch.int64)
            put_rows(cache, stored.reshape(-1, heads, width), slots, cache.shape[1])
            return
        check_shape(indices, name, "indices", (batch,))
        steps = torch.arange(length, device=rows.device)
        places = indices.to(torch.int64).unsqueeze(-1) + steps
        numbers = torch.arange(batch, device=rows.device).unsqueeze(-1)
        cache.index_put_((numbers.expand_as(places), places), stored)

    def _factors(
        self, name: str, heads: int, width: int
    ) -> tuple[Tensor, Tensor | None]:
        shapes = (width,), (heads, width), (heads * width,)
        found = []
        for what, table in (("scale", self.scale), ("offset", self.offset)):
            full = f"{what}_{self.what}"
            check_dtype(table, name, full, (torch.float32, torch.int32))
            check_shape(table, name, full, *shapes)
            if table is not None and table.shape[0] != width:
                table = table.reshape(heads, width)
            found.append(None if table is None else table.to(torch.float32))
        scale, offset = found
        assert scale is not None
        return scale, offset


def rotated_halves(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """x cos + (-x2, x1) sin in f32, where x1 and x2 are the halves of each head."""
    wide = x.to(torch.float32)
    left, right = wide.chunk(2, -1)
    swapped = torch.cat([-right, left], -1)
    return wide * cos.to(torch.float32) + swapped * sin.to(torch.float32)


def _run(
    name: str,
    x: Tensor,
    tables: tuple[Tensor, Tensor],
    caches: tuple[_Cache, _Cache],
    indices: Tensor,
    size_splits: list[int],
    options: tuple[int, str, bool, str],
) -> _Made:
    """Rotates and writes rows x (b, s, h) or (b, h) of floats."""
    quant_mode, input_layout, kv_output, cache_mode = options
    check(quant_mode == 0, name, f"quant_mode must be 0, got {quant_mode}")
    check(input_layout == "BSND", name, f"input_layout must be BSND: {input_layout!r}")
    known = cache_mode in ("contiguous", "page")
    check(known, name, f"cache_mode must be contiguous or page, got {cache_mode!r}")
    check_dtype(indices, name, "indices", INTEGERS)
    memory = caches[0].memory
    check(memory.dim() == 4, name, f"k_cache must have 4 dimensions: {memory.dim()}")
    heads, width = memory.shape[2:]
    right = len(size_splits) == 3 and sum(size_splits) == x.shape[-1]
    right = right and list(size_splits[1:]) == [heads * width] * 2
    right = right and size_splits[0] % width == 0 and size_splits[0] >= 0
    text = (
        f"size_splits must split {x.shape[-1]} elements into heads of {width}, the last"
    )
    check(right, name, f"{text} two {heads} of them, got {list(size_splits)}")
    cut = [part.unflatten(-1, (-1, width)) for part in x.split(list(size_splits), -1)]
    lead = x.shape[:-1]
    for what, table in zip(("cos", "sin"), tables):
        check_shape(table, name, what, (*lead, 1, width))
    query, key = (rotated_halves(part, *tables) for part in cut[:2])
    value = cut[2]
    for cache, rows in zip(caches, (key, value)):
        batched = rows if x.dim() == 3 else rows.unsqueeze(1)
        cache.write(name, batched, indices, cache_mode == "page")
    kind = tables[0].dtype
    made = (query.to(kind), key.to(kind), value.to(kind))
    kept = made if kv_output else (made[0], *(made[0].new_empty(0) for _ in "kv"))
    return *kept, caches[0].memory.clone(), caches[1].memory.clone()


@npu_operator
def npu_rope_quant_kvcache(
    x: Tensor,
    cos: Tensor,
    sin: Tensor,
    k_cache: Written,
    v_cache: Written,
    indices: Tensor,
    scale_k: Tensor,
    scale_v: Tensor,
    size_splits: Splits,
    *,
    offset_k: Tensor | None = None,
    offset_v: Tensor | None = None,
    quant_mode: int = 0,
    input_layout: str = "BSND",
    kv_output: bool = False,
    cache_mode: str = "contiguous",
) -> Annotated[_Made, "(Tensor, Tensor, Tensor, Tensor, Tensor)"]:
    """Splits rows into queries, keys and values, rotates the first two, and writes keys and
    values times their scales plus offsets, rounded, into caches of int8.

    x            (b, s, h) or (b, h) float16 or bfloat16
    cos, sin     (b, s, 1, d), or (b, 1, d), in x's dtype
    k_cache, v_cache  (b, length, heads, d) int8, where `indices` (b,) says where rows begin;
                 with `cache_mode` "page" (blocks, block_size, heads, d), where it has the
                 slot of each row
    scale_k, scale_v, offset_k, offset_v  f32 (d,), (heads, d) or (heads * d,)
    size_splits  the elements of queries, keys and values

    Returns queries (b, s, n, d); keys and values with `kv_output`, else empty tensors; and
    copies of both caches. RuntimeError: another shape, dtype or mode.
    """
    name = "npu_rope_quant_kvcache"
    check_dtype(x, name, "x", _HALF)
    check(x.dim() in (2, 3), name, f"x must have 2 or 3 dimensions, got {x.dim()}")
    for what, table in (("cos", cos), ("sin", sin)):
        check_dtype(table, name, what, (x.dtype,))
    keys = _Cache("k", k_cache, scale_k, offset_k)
    values = _Cache("v", v_cache, scale_v, offset_v)
    options = quant_mode, input_layout, kv_output, cache_mode
    told = (cos, sin), (keys, values), indices, size_splits, options
    return _run(name, x, *told)


@npu_operator
def npu_dequant_rope_quant_kvcache(
    x: Tensor,
    cos: Tensor,
    sin: Tensor,
    k_cache: Written,
    v_cache: Written,
    indices: Tensor,
    scale_k: Tensor,
    scale_v: Tensor,
    size_splits: Splits,
    *,
    offset_k: Tensor | None = None,
    offset_v: Tensor | None = None,
    weight_scale: Tensor | None = None,
    activation_scale: Tensor | None = None,
    bias: Tensor | None = None,
    quant_mode: int = 0,
    input_layout: str = "BSND",
    kv_output: bool = False,
    cache_mode: str = "contiguous",
) -> Annotated[_Made, "(Tensor, Tensor, Tensor, Tensor, Tensor)"]:
    """npu_rope_quant_kvcache of sums of integers, which it dequantises first as
    npu_dequant_bias does.

    x             (b, s, h) or (b, h) int32
    weight_scale  (h,) f32, and activation_scale (b * s,) f32
    bias          (h,) int32 or float

    RuntimeError: another shape, dtype or mode.
    """
    name = "npu_dequant_rope_quant_kvcache"
    check_dtype(x, name, "x", (torch.int32,))
    check(x.dim() in (2, 3), name, f"x must have 2 or 3 dimensions, got {x.dim()}")
    for what, table in (("cos", cos), ("sin", sin)):
        check_dtype(table, name, what, _HALF)
    check(weight_scale is not None, name, "weight_scale is needed")
    assert weight_scale is not None
    flat = x.flatten(0, -2)
    wide = dequantised(name, flat, weight_scale, activation_scale, bias)
    rows = wide.reshape(x.shape)
    keys = _Cache("k", k_cache, scale_k, offset_k)
    values = _Cache("v", v_cache, scale_v, offset_v)
    options = quant_mode, input_layout, kv_output, cache_mode
    told = (cos, sin), (keys, values), indices, size_splits, options
    return _run(name, rows, *told)
