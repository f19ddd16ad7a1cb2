"""npu_qkv_rms_norm_rope_cache: normalises and rotates queries and keys, and writes keys and
values into paged caches.

After the schema and tests of op-plugin."""

from __future__ import annotations

from typing import Annotated

import torch
from torch import Tensor

from ..checks import INTEGERS, check, check_dtype, check_shape
from ..definition import npu_operator
from ..quantisation.integers import to_int8
from ..schema import Written
from .paged import put_rows

_HALF = (torch.float16, torch.bfloat16)
_Sizes = Annotated[list[int], "int[4]"]
_Heads = Annotated[list[int], "int[3]"]


def _split(
    name: str, qkv: Tensor, qkv_size: list[int], head_nums: list[int]
) -> list[Tensor]:
    """Queries, keys and values, (tokens, heads, d)."""
    check_dtype(qkv, name, "qkv", _HALF)
    batch, length, heads, width = qkv_size
    text = f"head_nums must add up to the {heads} heads of qkv_size, got {head_nums}"
    right = sum(head_nums) == heads and min(head_nums) > 0
    check(right, name, text)
    text = f"head_nums must have as many keys as values, got {head_nums}"
    check(head_nums[1] == head_nums[2], name, text)
    check(width % 2 == 0, name, f"qkv_size must end with an even number, got {width}")
    check_shape(qkv, name, "qkv", (batch * length, heads * width))
    return list(qkv.unflatten(-1, (heads, width)).split(head_nums, 1))


def _normed(x: Tensor, gamma: Tensor, epsilon: float) -> Tensor:
    wide = x.to(torch.float32)
    root = torch.rsqrt(wide.square().mean(-1, keepdim=True) + epsilon)
    return wide * root * gamma.to(torch.float32)


def _rotated(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    left, right = x.chunk(2, -1)
    swapped = torch.cat([-right, left], -1)
    return x * cos.to(torch.float32) + swapped * sin.to(torch.float32)


def _write(
    name: str,
    what: str,
    cache: Tensor,
    rows: Tensor,
    slots: Tensor,
    scale: Tensor | None,
    offset: Tensor | None,
    kind: torch.dtype,
) -> None:
    """Writes rows (tokens, heads, d) to their slots, as int8 if there is a scale."""
    heads, width = rows.shape[1:]
    for argument, table in ((f"{what}_scale", scale), (f"{what}_offset", offset)):
        check_dtype(table, name, argument, (torch.float32,))
        check_shape(table, name, argument, (heads, width))
    check(
        scale is not None or offset is None, name, f"{what}_offset needs {what}_scale"
    )
    full, stored = f"{what}_cache", kind if scale is None else torch.int8
    check_dtype(cache, name, full, (stored,))
    check(cache.dim() == 4, name, f"{full} must have 4 dimensions, got {cache.dim()}")
    _, across, size, last = cache.shape
    right = across * last == heads * width and width % last == 0
    text = f"{full} must be (blocks, {heads * width} / n, block_size, n)"
    check(right, name, f"{text}, got {tuple(cache.shape)}")
    values = rows
    if scale is not None:
        values = rows / scale
        values = to_int8(values if offset is None else values + offset)
    put_rows(cache.permute(0, 2, 1, 3), values.to(stored), slots, size)


def _run(
    name: str,
    qkv: Tensor,
    gammas: tuple[Tensor, Tensor],
    tables: tuple[Tensor, Tensor],
    index: Tensor,
    memory: tuple[Tensor, Tensor, Tensor],
    sizes: tuple[list[int], list[int]],
    scales: tuple[tuple[Tensor | None, Tensor | None], ...],
    options: tuple[float, str, bool],
) -> tuple[Tensor, Tensor, Tensor]:
    epsilon, cache_mode, returned = options
    check(cache_mode == "PA_NZ", name, f"cache_mode must be PA_NZ, got {cache_mode!r}")
    states = _split(name, qkv, *sizes)
    tokens, _, width = states[0].shape
    for what, gamma in zip(("q_gamma", "k_gamma"), gammas):
        check_dtype(gamma, name, what, (qkv.dtype,))
        check_shape(gamma, name, what, (width,))
    for what, table in zip(("cos", "sin"), tables):
        check_dtype(table, name, what, (qkv.dtype,))
        check_shape(table, name, what, (tokens, width))
    check_dtype(index, name, "index", INTEGERS)
    check_shape(index, name, "index", (tokens,))
    cos, sin = (table.unsqueeze(1) for table in tables)
    query, key = (
        _rotated(_normed(part, gamma, epsilon), cos, sin)
        for part, gamma in zip(states, gammas)
    )
    value = states[2].to(torch.float32)
    made = [part.flatten(1).to(qkv.dtype) for part in (query, key, value)]
    q_out, *caches = memory
    check_dtype(q_out, name, "q_out", (qkv.dtype,))
    check_shape(q_out, name, "q_out", tuple(made[0].shape))
    q_out.copy_(made[0])
    slots = index.to(torch.int64)
    for what, cache, rows, told in zip("kv", caches, (key, value), scales):
        _write(name, what, cache, rows, slots, *told, qkv.dtype)
    if not returned:
        made = [qkv.new_empty(0) for _ in made]
    return made[0], made[1], made[2]


@npu_operator
def npu_qkv_rms_norm_rope_cache(
    qkv: Tensor,
    q_gamma: Tensor,
    k_gamma: Tensor,
    cos: Tensor,
    sin: Tensor,
    index: Tensor,
    q_out: Written,
    k_cache: Written,
    v_cache: Written,
    qkv_size: _Sizes,
    head_nums: _Heads,
    *,
    k_scale: Tensor | None = None,
    v_scale: Tensor | None = None,
    k_offset: Tensor | None = None,
    v_offset: Tensor | None = None,
    epsilon: float = 1e-6,
    cache_mode: str = "PA_NZ",
    is_output_qkv: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gives queries and keys an RMS norm and rotates them, writes queries to q_out, and keys
    and values to the slots of their caches. Computed in f32.

    qkv        (b * s, heads * d) float16 or bfloat16
    q_gamma, k_gamma  (d,); cos, sin: (b * s, d), for the halves of each head
    index      (b * s,): slots, which count through all blocks; negative ones are left out
    q_out      (b * s, query heads * d)
    k_cache, v_cache  (blocks, heads * d / n, block_size, n)
    qkv_size   (b, s, heads, d); head_nums: those of queries, keys and values
    k_scale, v_scale, k_offset, v_offset  f32 (heads, d): the caches are int8, rows divided
               by the scale plus the offset, rounded half to even and clamped
    cache_mode "PA_NZ"

    Returns queries, keys and values in qkv's dtype with `is_output_qkv`, else empty
    tensors. RuntimeError: another shape, dtype or mode.
    """
    return _run(
        "npu_qkv_rms_norm_rope_cache",
        qkv,
        (q_gamma, k_gamma),
        (cos, sin),
        index,
        (q_out, k_cache, v_cache),
        (list(qkv_size), list(head_nums)),
        ((k_scale, k_offset), (v_scale, v_offset)),
        (epsilon, cache_mode, is_output_qkv),
    )


@npu_operator
def npu_qkv_rms_norm_rope_cache_functional(
    qkv: Tensor,
    q_gamma: Tensor,
    k_gamma: Tensor,
    cos: Tensor,
    sin: Tensor,
    index: Tensor,
    q_out: Tensor,
    k_cache: Tensor,
    v_cache: Tensor,
    qkv_size: _Sizes,
    head_nums: _Heads,
    *,
    k_scale: Tensor | None = None,
    v_scale: Tensor | None = None,
    k_offset: Tensor | None = None,
    v_offset: Tensor | None = None,
    epsilon: float = 1e-6,
    cache_mode: str = "PA_NZ",
    is_output_qkv: bool = False,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """npu_qkv_rms_norm_rope_cache into copies of q_out and of the caches, which are returned
    after its results. RuntimeError: as that operator raises."""
    copies = q_out.clone(), k_cache.clone(), v_cache.clone()
    made = _run(
        "npu_qkv_rms_norm_rope_cache_functional",
        qkv,
        (q_gamma, k_gamma),
        (cos, sin),
        index,
        copies,
        (list(qkv_size), list(head_nums)),
        ((k_scale, k_offset), (v_scale, v_offset)),
        (epsilon, cache_mode, is_output_qkv),
    )
    return *made, *copies
