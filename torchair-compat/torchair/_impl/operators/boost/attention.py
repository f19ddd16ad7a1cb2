"""Attention of the transformer boost library: of packed sequences, and of pages of a cache.

After the schemas of Ascend's op-plugin. All of them are npu_fused_infer_attention_score in
other words, and write to `out`."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..attention.fused_infer import attend
from ..checks import INTEGERS, check, check_dtype, reads_values
from ..definition import atb_operator
from ..quantisation.rows import group_of_rows
from ..schema import Written

_CAUSAL = 3  # sparse_mode: the last row and the last key of a sequence are one token
_PAGED_TRIANGLE, _PACKED_TRIANGLE = 5, 3  # mask_type
_BLOCK = 16  # elements of a block of FRACTAL_NZ


@atb_operator
def _npu_paged_attention(
    query: Tensor,
    key_cache: Tensor,
    value_cache: Tensor,
    num_kv_heads: int,
    num_heads: int,
    scale_value: float,
    block_table: Tensor,
    context_lens: Tensor,
    out: Written,
    *,
    workspace: Tensor | None = None,
) -> None:
    """softmax(scale_value query key^T) value of one token of each sequence, into `out`.

    query         (b, num_heads, d) float
    key_cache, value_cache  (blocks, block_size, num_kv_heads, d), or in FRACTAL_NZ
                  (blocks, num_kv_heads * d / 16, block_size, 16)
    block_table   (b, pages)
    context_lens  (b,): the keys of each sequence
    workspace     has nothing to say on this host

    RuntimeError, ValueError: another shape, dtype or length.
    """
    name = "_npu_paged_attention"
    check(query.dim() == 3, name, f"query must have 3 dimensions, got {query.dim()}")
    caches = (
        _pages(name, "key_cache", key_cache, num_kv_heads),
        _pages(name, "value_cache", value_cache, num_kv_heads),
    )
    options = _options(num_heads, num_kv_heads, scale_value)
    options |= _paged(name, block_table, context_lens)
    made = attend(query.unsqueeze(1), *caches, options | _rows("BSND"), name)[0]
    _write(name, out, made)


@atb_operator
def _npu_paged_attention_get_workspace(
    query: Tensor,
    key_cache: Tensor,
    value_cache: Tensor,
    num_kv_heads: int,
    num_heads: int,
    scale_value: float,
    block_table: Tensor,
    context_lens: Tensor,
    out: Tensor,
) -> Tensor:
    """An empty tensor: this host needs no memory for _npu_paged_attention."""
    return query.new_empty(0)


@atb_operator
def _npu_paged_attention_mla(
    query: Tensor,
    key_cache: Tensor,
    num_kv_heads: int,
    num_heads: int,
    scale_value: float,
    block_table: Tensor,
    context_lens: Tensor,
    mla_vheadsize: int,
    out: Written,
) -> None:
    """_npu_paged_attention whose values are the first `mla_vheadsize` elements of the keys.
    `key_cache` is (blocks, block_size, num_kv_heads, d). RuntimeError, ValueError: as
    there."""
    name = "_npu_paged_attention_mla"
    check(query.dim() == 3, name, f"query must have 3 dimensions, got {query.dim()}")
    right = key_cache.dim() == 4 and key_cache.shape[2] == num_kv_heads
    text = f"key_cache must be (blocks, block_size, {num_kv_heads}, d)"
    check(right, name, f"{text}, got {tuple(key_cache.shape)}")
    fits = 0 < mla_vheadsize <= key_cache.shape[3]
    text = f"mla_vheadsize must be from 1 to {key_cache.shape[3]}"
    check(fits, name, f"{text}, got {mla_vheadsize}")
    values = key_cache[..., :mla_vheadsize]
    options = _options(num_heads, num_kv_heads, scale_value) | _rows("BSND")
    options |= _paged(name, block_table, context_lens)
    caches = key_cache.flatten(2), values.flatten(2)
    _write(name, out, attend(query.unsqueeze(1), *caches, options, name)[0])


@atb_operator
def _npu_paged_attention_splitfuse(
    query: Tensor,
    key_cache: Tensor,
    value_cache: Tensor,
    block_table: Tensor,
    context_lens: Tensor,
    mask: Tensor,
    seq_len: Tensor,
    num_kv_heads: int,
    num_heads: int,
    scale_value: float,
    out: Written,
) -> None:
    """The attention of packed tokens to pages of a cache, into `out`.

    query         (t, num_heads, d): the `seq_len` (b,) newest tokens of each sequence,
                  one sequence after another
    context_lens  (b,): the keys of each sequence, those of its tokens among them
    mask          (t, keys) or (1, t, keys) float, added to the scores; or in FRACTAL_NZ
                  (1, keys / 16, t, 16)

    The other arguments are those of _npu_paged_attention. RuntimeError, ValueError:
    another shape, dtype or length.
    """
    name = "_npu_paged_attention_splitfuse"
    caches, options = _packed_pages(
        name,
        (key_cache, value_cache),
        (num_heads, num_kv_heads, scale_value),
        block_table,
        context_lens,
        seq_len,
    )
    rows = _mask_matrix(name, mask)
    tokens, pages = query.shape[0], block_table.shape[1]
    size = caches[0].shape[1] if caches[0].dim() == 3 else caches[0].shape[3]
    place = torch.arange(block_table.shape[0] * pages * size, device=mask.device)
    place = place % (pages * size)
    check(rows.shape[0] >= tokens, name, f"mask has {rows.shape[0]} rows of {tokens}")
    # Columns beyond the mask belong to no key: lengths hide them.
    columns = place.clamp(max=rows.shape[1] - 1)
    options["pse_shift"] = rows[:tokens, columns][None, None]
    _write(name, out, attend(query, *caches, options, name)[0])


@atb_operator
def _npu_paged_attention_splitfuse_v2(
    query: Tensor,
    key_cache: Tensor,
    value_cache: Tensor,
    block_table: Tensor,
    context_lens: Tensor,
    mask: Tensor,
    seq_len: Tensor,
    num_kv_heads: int,
    num_heads: int,
    scale_value: float,
    *,
    mask_type: int | None = 5,
    out: Written,
) -> None:
    """_npu_paged_attention_splitfuse that is causal: `mask_type` 5 says that the mask is a
    triangle, of which nothing is read. RuntimeError, ValueError: as there."""
    name = "_npu_paged_attention_splitfuse_v2"
    known = mask_type in (None, _PAGED_TRIANGLE)
    check(known, name, f"mask_type must be {_PAGED_TRIANGLE}, got {mask_type}")
    numbers = num_heads, num_kv_heads, scale_value
    given = block_table, context_lens, seq_len
    _causal_pages(name, query, (key_cache, value_cache), numbers, *given, mask, out)


@atb_operator
def _npu_flash_attention_qlens(
    query: Tensor,
    key_cache: Tensor,
    value_cache: Tensor,
    block_table: Tensor,
    mask: Tensor,
    seq_len: Tensor,
    context_lens: Tensor,
    num_kv_heads: int,
    num_heads: int,
    scale_value: float,
    out: Written,
) -> None:
    """_npu_paged_attention_splitfuse_v2 with its arguments in another order. RuntimeError,
    ValueError: as there."""
    name = "_npu_flash_attention_qlens"
    numbers = num_heads, num_kv_heads, scale_value
    given = block_table, context_lens, seq_len
    _causal_pages(name, query, (key_cache, value_cache), numbers, *given, mask, out)


@atb_operator
def _npu_flash_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor,
    seq_len: Tensor,
    scale_value: float,
    num_heads: int,
    num_kv_heads: int,
    out: Written,
) -> None:
    """softmax(scale_value query key^T + mask) value of packed sequences, into `out`.

    query       (t, num_heads * d) or (t, num_heads, d) float
    key, value  the same of num_kv_heads heads, of as many tokens
    seq_len     (b,): the tokens of each sequence
    mask        (s, s) or (1, s, s) float: what is added to the scores of a token and a
                key at these places of their sequence; or in FRACTAL_NZ (1, s / 16, s, 16)

    RuntimeError, ValueError: another shape, dtype or length.
    """
    name = "_npu_flash_attention"
    (q, k, v), options = packed(
        name,
        (query, key, value),
        ends(name, "seq_len", seq_len),
        num_heads,
        num_kv_heads,
        scale_value,
    )
    table = _mask_matrix(name, mask)
    stops = seq_len.to(torch.int64).cumsum(0)
    numbers = torch.arange(query.shape[0], device=query.device)
    sequence = group_of_rows(stops, query.shape[0])
    starts = torch.cat([stops.new_zeros(1), stops])[sequence.clamp(max=stops.shape[0])]
    place = (numbers - starts).clamp(0, max(table.shape[0] - 1, 0))
    _check_covered(name, table, seq_len)
    options["pse_shift"] = table[place][:, place.clamp(max=table.shape[1] - 1)][
        None, None
    ]
    _write(name, out, attend(q, k, v, options, name)[0])


@atb_operator
def _npu_flash_attention_v3(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor,
    seq_len: Tensor,
    scale_value: float,
    num_heads: int,
    num_kv_heads: int,
    *,
    mask_type: int | None = 3,
    out: Written,
) -> None:
    """_npu_flash_attention that is causal: `mask_type` 3 says that the mask is a triangle,
    of which nothing is read. RuntimeError, ValueError: as there."""
    name = "_npu_flash_attention_v3"
    known = mask_type in (None, _PACKED_TRIANGLE)
    check(known, name, f"mask_type must be {_PACKED_TRIANGLE}, got {mask_type}")
    check_triangle(name, mask)
    (q, k, v), options = packed(
        name,
        (query, key, value),
        ends(name, "seq_len", seq_len),
        num_heads,
        num_kv_heads,
        scale_value,
    )
    options["sparse_mode"] = _CAUSAL
    _write(name, out, attend(q, k, v, options, name)[0])


@atb_operator
def _npu_flash_attention_unpad(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    seq_len: Tensor,
    scale_value: float,
    num_heads: int,
    num_kv_heads: int,
    out: Written,
) -> None:
    """_npu_flash_attention without a mask: each token reads all keys of its sequence.
    RuntimeError, ValueError: as there."""
    name = "_npu_flash_attention_unpad"
    (q, k, v), options = packed(
        name,
        (query, key, value),
        ends(name, "seq_len", seq_len),
        num_heads,
        num_kv_heads,
        scale_value,
    )
    _write(name, out, attend(q, k, v, options, name)[0])


@atb_operator
def _npu_flash_attention_unpad_v2(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    seq_len: Tensor,
    scale_value: float,
    num_heads: int,
    num_kv_heads: int,
    *,
    kernel_type: int | None = 0,
    out: Written,
) -> None:
    """_npu_flash_attention_unpad; `kernel_type` 0 or 2 chooses among an NPU's kernels.
    RuntimeError, ValueError: as there."""
    name = "_npu_flash_attention_unpad_v2"
    known = kernel_type in (None, 0, 2)
    check(known, name, f"kernel_type must be 0 or 2, got {kernel_type}")
    (q, k, v), options = packed(
        name,
        (query, key, value),
        ends(name, "seq_len", seq_len),
        num_heads,
        num_kv_heads,
        scale_value,
    )
    _write(name, out, attend(q, k, v, options, name)[0])


def _options(heads: int, kv_heads: int, scale: float) -> dict[str, Any]:
    return {"num_heads": heads, "num_key_value_heads": kv_heads, "scale": scale}


def _rows(layout: str) -> dict[str, Any]:
    return {"input_layout": layout}


def lengths(name: str, what: str, given: Tensor) -> list[int] | Tensor:
    """The lengths as attention takes them: numbers in eager code, which it checks."""
    check_dtype(given, name, what, INTEGERS)
    check(given.dim() == 1, name, f"{what} must have 1 dimension, got {given.dim()}")
    if reads_values(given):
        return [int(number) for number in given.tolist()]
    return given.to(torch.int64)


def ends(name: str, what: str, given: Tensor) -> list[int] | Tensor:
    found = lengths(name, what, given)
    if isinstance(found, Tensor):
        return found.cumsum(0)
    return [sum(found[: place + 1]) for place in range(len(found))]


def _paged(name: str, block_table: Tensor, context_lens: Tensor) -> dict[str, Any]:
    right = block_table.dim() == 2 and block_table.shape[0] == context_lens.shape[0]
    text = "block_table must have a row for each of context_lens"
    check(right, name, f"{text}, got {tuple(block_table.shape)}")
    return {
        "block_table": block_table,
        "actual_seq_lengths_kv": lengths(name, "context_lens", context_lens),
    }


def _pages(name: str, what: str, cache: Tensor, heads: int) -> Tensor:
    """A cache as attention takes its pages."""
    check(cache.dim() == 4, name, f"{what} must have 4 dimensions, got {cache.dim()}")
    if cache.shape[2] == heads:
        return cache.flatten(2)
    blocked = cache.shape[3] == _BLOCK and cache.shape[1] % heads == 0
    text = f"{what} must be (blocks, block_size, {heads}, d), or in blocks of {_BLOCK}"
    check(blocked, name, f"{text}, got {tuple(cache.shape)}")
    return cache.unflatten(1, (heads, cache.shape[1] // heads))


def _packed_pages(
    name: str,
    caches: tuple[Tensor, Tensor],
    numbers: tuple[int, int, float],
    block_table: Tensor,
    context_lens: Tensor,
    seq_len: Tensor,
) -> tuple[tuple[Tensor, Tensor], dict[str, Any]]:
    """The caches and the options of attention of packed tokens to pages."""
    options = _options(*numbers) | _rows("TND")
    options |= _paged(name, block_table, context_lens)
    options["actual_seq_lengths"] = ends(name, "seq_len", seq_len)
    heads = numbers[1]
    key = _pages(name, "key_cache", caches[0], heads)
    return (key, _pages(name, "value_cache", caches[1], heads)), options


def _causal_pages(
    name: str,
    query: Tensor,
    caches: tuple[Tensor, Tensor],
    numbers: tuple[int, int, float],
    block_table: Tensor,
    context_lens: Tensor,
    seq_len: Tensor,
    mask: Tensor,
    out: Tensor,
) -> None:
    """The causal attention of packed tokens to pages, into `out`."""
    check_triangle(name, mask)
    given = block_table, context_lens, seq_len
    pages, options = _packed_pages(name, caches, numbers, *given)
    options["sparse_mode"] = _CAUSAL
    _write(name, out, attend(query, *pages, options, name)[0])


def packed(
    name: str,
    operands: tuple[Tensor, Tensor, Tensor],
    sums: list[int] | Tensor,
    heads: int,
    kv_heads: int,
    scale: float,
) -> tuple[tuple[Tensor, Tensor, Tensor], dict[str, Any]]:
    """The operands (t, heads, d) and the options of attention of packed sequences, whose
    lengths have these `sums`."""
    found = []
    for what, tensor, count in zip(
        ("query", "key", "value"), operands, (heads, kv_heads, kv_heads)
    ):
        text = f"{what} must be (t, {count}, d) or (t, {count} * d)"
        right = tensor.dim() in (2, 3) and count > 0
        right = right and tensor.shape[0] == operands[0].shape[0]
        joined = right and tensor.dim() == 2
        right = right and (tensor.shape[1] % count == 0 if joined else True)
        right = right and (joined or tensor.shape[1] == count)
        check(right, name, f"{text}, got {tuple(tensor.shape)}")
        found.append(tensor.unflatten(1, (count, -1)) if joined else tensor)
    options = _options(heads, kv_heads, scale) | _rows("TND")
    options["actual_seq_lengths"] = sums
    return (found[0], found[1], found[2]), options


def _mask_matrix(name: str, mask: Tensor) -> Tensor:
    """The mask as (rows, columns)."""
    check(mask.is_floating_point(), name, f"mask must be floating, got {mask.dtype}")
    right = mask.dim() == 2 or (mask.dim() in (3, 4) and mask.shape[0] == 1)
    text = "mask must be (rows, columns), (1, rows, columns), or in blocks of 16"
    check(right, name, f"{text}, got {tuple(mask.shape)}")
    if mask.dim() == 4:
        blocked = mask.shape[3] == _BLOCK
        check(blocked, name, f"{text}, got {tuple(mask.shape)}")
        return mask[0].transpose(0, 1).flatten(1)
    return mask if mask.dim() == 2 else mask[0]


def _check_covered(name: str, mask: Tensor, seq_len: Tensor) -> None:
    """RuntimeError in eager code: a sequence is longer than the mask."""
    if not reads_values(seq_len) or seq_len.numel() == 0:
        return
    most, size = int(seq_len.max()), min(mask.shape)
    check(most <= size, name, f"mask of {size} places does not cover seq_len {most}")


def check_triangle(name: str, mask: Tensor) -> None:
    """RuntimeError: a triangle that is no square, or no square in blocks of 16."""
    shape = tuple(mask.shape)
    if len(shape) == 4 and shape[3] == _BLOCK:
        shape = (shape[2], shape[1] * _BLOCK)
    square = len(shape) >= 2 and shape[-1] == shape[-2]
    check(square, name, f"mask must be a triangle, a square, got {tuple(mask.shape)}")


def _write(name: str, out: Tensor, made: Tensor) -> None:
    fits = out.numel() == made.numel() and out.dtype == made.dtype
    text = f"out must be {made.dtype} of {made.numel()} elements"
    check(fits, name, f"{text}, got {out.dtype} {tuple(out.shape)}")
    out.copy_(made.reshape(out.shape))
