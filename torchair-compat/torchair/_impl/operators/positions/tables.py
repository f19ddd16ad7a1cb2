"""Rotary embeddings by tables of cosines and sines, of which positions choose rows.

After Ascend's API reference of torch_npu, page npu_mrope, and the schema of
_npu_rotary_embedding in its transformer boost library."""

from __future__ import annotations

import torch
from torch import Tensor

from ..checks import FLOATS, INTEGERS, check, check_dtype
from ..definition import atb_operator, npu_operator
from ..schema import Written

_STEP = 3  # interleaved sections take turns with frequencies


@npu_operator
def npu_mrope(
    positions: Tensor,
    query: Tensor,
    key: Tensor,
    cos_sin_cache: Tensor,
    head_size: int,
    *,
    mrope_section: list[int] | None = None,
    rotary_mode: str | None = "half",
    cache_mode: str | None = "default",
) -> tuple[Tensor, Tensor]:
    """Rotates the first elements of each head by the cosines and sines of its positions,
    computed in f32.

    positions      (tokens,), or (sections, tokens) with `mrope_section`: int32 or int64
    query, key     (tokens, heads * head_size) float
    cos_sin_cache  (positions, rotary), in query's dtype: cosines, then sines. The other
                   head_size - rotary elements of a head stay as they are
    mrope_section  how many of the rotary / 2 frequencies each row of positions has; None
                   and zeros: positions is one row
    cache_mode     "default": one section after the other. "interleave", of three
                   sections: from frequency 1 and from 2 on every third one is that of
                   row 1 and of row 2, below 3 * mrope_section[1]; the others of row 0
    rotary_mode    "half" rotates the halves of the rotary elements, "interleaved" pairs
                   of neighbours

    Returns query and key, rotated. RuntimeError: another shape, dtype or mode.
    """
    name = "npu_mrope"
    known = rotary_mode in ("half", "interleaved", "interleave")
    check(known, name, f"no such rotary_mode: {rotary_mode!r}")
    known = cache_mode in ("default", "interleave")
    check(known, name, f"no such cache_mode: {cache_mode!r}")
    check_dtype(positions, name, "positions", INTEGERS)
    sections = [int(size) for size in mrope_section or ()]
    many = any(sections)
    text = f"positions must be {'(sections, tokens)' if many else '(tokens,)'}"
    right = positions.dim() == (2 if many else 1)
    check(
        right, name, f"{text} beside mrope_section {sections}, got {positions.dim()}D"
    )
    cos, sin = _tables(name, positions, cos_sin_cache, head_size)
    if many:
        _check_sections(name, sections, cos, cache_mode == "interleave")
        join = _interleaved if cache_mode == "interleave" else _one_after_another
        cos, sin = join(cos, sections), join(sin, sections)
    turned = []
    for what, x in (("query", query), ("key", key)):
        check_dtype(x, name, what, FLOATS)
        check_dtype(cos_sin_cache, name, "cos_sin_cache", (x.dtype,))
        right = x.dim() == 2 and x.shape[0] == positions.shape[-1]
        check(right, name, f"{what} must be (tokens, heads * head_size)")
        turned.append(
            _of_heads(name, what, x, head_size, cos, sin, rotary_mode == "half")
        )
    return turned[0], turned[1]


def _tables(
    name: str, positions: Tensor, cache: Tensor, head_size: int
) -> tuple[Tensor, Tensor]:
    """Cosines and sines of the positions in f32, (..., rotary / 2) each."""
    right = cache.dim() == 2 and cache.shape[1] % 2 == 0
    check(right, name, f"cos_sin_cache must be (positions, even), got {cache.dim()}D")
    rotary = cache.shape[1]
    text = f"cos_sin_cache turns {rotary} elements, and head_size is {head_size}"
    check(0 < rotary <= head_size, name, text)
    rows = cache[positions.to(torch.int64)].to(torch.float32)
    cos, sin = rows.chunk(2, -1)
    return cos, sin


def _check_sections(
    name: str, sections: list[int], table: Tensor, interleaved: bool
) -> None:
    rows, width = table.shape[0], table.shape[-1]
    fits = len(sections) == rows and rows in (3, 4)
    text = (
        f"mrope_section {sections} must have 3 or 4 numbers, as many as positions rows"
    )
    check(fits and min(sections) >= 0, name, text)
    fits = sum(sections) == width
    check(fits, name, f"mrope_section {sections} must add up to {width}")
    fits = not interleaved or rows == _STEP
    text = f"cache_mode 'interleave' does not take mrope_section {sections}"
    check(fits, name, text)


def _one_after_another(table: Tensor, sections: list[int]) -> Tensor:
    """Each section from its own row of positions."""
    parts = table.split(sections, -1)
    return torch.cat([part[row] for row, part in enumerate(parts)], -1)


def _interleaved(table: Tensor, sections: list[int]) -> Tensor:
    """Frequencies of the rows 0, 1 and 2 in turns, up to the end of the sections."""
    places = torch.arange(table.shape[-1], device=table.device)
    row = torch.where(places < sections[1] * _STEP, places % _STEP, 0)
    return torch.where(row == 1, table[1], torch.where(row == 2, table[2], table[0]))


def _of_heads(
    name: str,
    what: str,
    x: Tensor,
    head_size: int,
    cos: Tensor,
    sin: Tensor,
    halves: bool,
) -> Tensor:
    """x (tokens, heads * head_size), rotated by tables (tokens, rotary / 2)."""
    fits = head_size > 0 and x.shape[-1] % head_size == 0
    check(
        fits,
        name,
        f"{what} rows of {x.shape[-1]} are no heads of head_size {head_size}",
    )
    heads = x.unflatten(-1, (x.shape[-1] // head_size, head_size))
    rotary = 2 * cos.shape[-1]
    wide = heads[..., :rotary].to(torch.float32)
    left, right = wide.chunk(2, -1) if halves else (wide[..., ::2], wide[..., 1::2])
    cos, sin = cos.unsqueeze(-2), sin.unsqueeze(-2)
    parts = left * cos - right * sin, right * cos + left * sin
    turned = torch.cat(parts, -1) if halves else torch.stack(parts, -1).flatten(-2)
    return torch.cat([turned.to(x.dtype), heads[..., rotary:]], -1).flatten(-2)


@atb_operator
def _npu_rotary_embedding(
    positions: Tensor,
    query: Written,
    key: Written,
    head_size: int,
    cos_sin_cache: Tensor,
    is_neox_style: bool,
) -> None:
    """npu_mrope with one row of positions, into query and key.

    positions      int32 or int64, one for each token
    query, key     (..., heads * head_size) float, with as many tokens
    cos_sin_cache  (positions, head_size): cosines, then sines
    is_neox_style  True rotates the halves of a head, False pairs of neighbours

    RuntimeError: another shape or dtype.
    """
    name = "_npu_rotary_embedding"
    check_dtype(positions, name, "positions", INTEGERS)
    check_dtype(cos_sin_cache, name, "cos_sin_cache", FLOATS)
    cos, sin = _tables(name, positions.reshape(-1), cos_sin_cache, head_size)
    for what, x in (("query", query), ("key", key)):
        check_dtype(x, name, what, FLOATS)
        rows = x.numel() // max(x.shape[-1], 1)
        text = f"{what} has {rows} tokens, positions has {positions.numel()}"
        check(rows == positions.numel(), name, text)
        flat = x.reshape(-1, x.shape[-1])
        made = _of_heads(name, what, flat, head_size, cos, sin, is_neox_style)
        x.copy_(made.reshape(x.shape))
