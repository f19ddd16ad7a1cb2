"""Rotary embeddings by tables of cosines and sines, against loops in float64."""

from __future__ import annotations

import math

import pytest
import torch

import torch_npu
from agreement import both

TOKENS, HEADS, SIZE, ROTARY = 5, 2, 16, 12
F32, F16, BF16 = torch.float32, torch.float16, torch.bfloat16


def turned(x, rows, frequencies, halves):
    """Each pair of each head, turned by the row of the table that `rows(token,
    frequency)` names; `frequencies` has cosines, then sines."""
    half = frequencies.shape[1] // 2
    wide, found = x.double().unflatten(-1, (-1, SIZE)), x.double().clone()
    found = found.unflatten(-1, (-1, SIZE))
    for token in range(x.shape[0]):
        for f in range(half):
            row = frequencies[rows(token, f)].double()
            cos, sin = row[f], row[half + f]
            a, b = (f, half + f) if halves else (2 * f, 2 * f + 1)
            first, second = wide[token, :, a], wide[token, :, b]
            found[token, :, a] = first * cos - second * sin
            found[token, :, b] = second * cos + first * sin
    return found.flatten(-2).to(x.dtype)


def operands(dtype, rotary=ROTARY):
    query, key = (torch.randn(TOKENS, n * SIZE).to(dtype) for n in (HEADS, 1))
    return query, key, torch.randn(7, rotary).to(dtype)


def close(dtype):
    eps = torch.finfo(dtype).eps
    return {"atol": 4 * eps, "rtol": 4 * eps}


@pytest.mark.parametrize("dtype", [F32, F16, BF16])
@pytest.mark.parametrize("mode", ["half", "interleaved"])
@pytest.mark.parametrize("sections", [None, [0, 0, 0]])
def test_one_row_of_positions(mode, dtype, sections) -> None:
    query, key, table = operands(dtype)
    positions = torch.tensor([3, 0, 6, 6, 1])

    def function(*given):
        return torch_npu.npu_mrope(
            *given, SIZE, mrope_section=sections, rotary_mode=mode
        )

    found = both(function, positions, query, key, table, **close(dtype))
    for x, result in zip((query, key), found):
        wanted = turned(x, lambda t, f: positions[t], table, mode == "half")
        torch.testing.assert_close(result, wanted, **close(dtype))


@pytest.mark.parametrize("dtype", [F32, BF16])
@pytest.mark.parametrize("mode", ["half", "interleaved"])
@pytest.mark.parametrize(
    ("sections", "cache_mode", "row"),
    [
        ([3, 2, 1], "default", lambda f: [0, 0, 0, 1, 1, 2][f]),
        ([1, 2, 2, 1], "default", lambda f: [0, 1, 1, 2, 2, 3][f]),
        ([2, 2, 2], "interleave", lambda f: f % 3),
        ([4, 1, 1], "interleave", lambda f: f % 3 if f < 3 else 0),
        ([1, 3, 2], "interleave", lambda f: f % 3),
    ],
)
def test_sections(sections, cache_mode, row, mode, dtype) -> None:
    query, key, table = operands(dtype)
    positions = torch.randint(0, 7, (len(sections), TOKENS), dtype=torch.int32)

    def function(*given):
        return torch_npu.npu_mrope(
            *given,
            SIZE,
            mrope_section=sections,
            rotary_mode=mode,
            cache_mode=cache_mode,
        )

    found = both(function, positions, query, key, table, **close(dtype))
    for x, result in zip((query, key), found):
        wanted = turned(x, lambda t, f: positions[row(f), t], table, mode == "half")
        torch.testing.assert_close(result, wanted, **close(dtype))


@pytest.mark.parametrize("dtype", [F32, F16])
@pytest.mark.parametrize("neox", [False, True])
def test_in_place(neox, dtype) -> None:
    """_npu_rotary_embedding, with tokens in two dimensions."""
    query, key, table = operands(dtype, SIZE)
    positions = torch.tensor([3, 0, 6, 6, 1])
    wanted = [turned(x, lambda t, f: positions[t], table, neox) for x in (query, key)]

    def function(positions, query, key, table):
        torch_npu._npu_rotary_embedding(positions, query, key, SIZE, table, neox)
        return query + 0

    both(function, positions, query, key, table.float(), **close(dtype))
    torch.testing.assert_close([query, key], wanted, **close(dtype))
    query, key, _ = operands(dtype, SIZE)
    shaped = query.reshape(1, TOKENS, -1).clone()
    torch_npu._npu_rotary_embedding(
        positions.reshape(1, -1), shaped, key, SIZE, table, neox
    )
    assert shaped.shape == (1, TOKENS, HEADS * SIZE) and math.prod(shaped.shape)
    wanted = turned(query, lambda t, f: positions[t], table, neox)
    torch.testing.assert_close(shaped[0], wanted, **close(dtype))


GIVEN = {
    "positions": torch.zeros(TOKENS).long(),
    "query": torch.ones(TOKENS, HEADS * SIZE),
    "key": torch.ones(TOKENS, SIZE),
    "cos_sin_cache": torch.ones(7, ROTARY),
    "head_size": SIZE,
}
THREE = torch.zeros(3, TOKENS).long()


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"rotary_mode": "quarter"}, "no such rotary_mode: 'quarter'"),
        ({"cache_mode": "invalid"}, "no such cache_mode: 'invalid'"),
        ({"positions": THREE}, r"positions must be \(tokens,\) beside mrope_section"),
        ({"mrope_section": [2, 2, 2]}, r"positions must be \(sections, tokens\)"),
        ({"positions": THREE, "mrope_section": [3, 3]}, "must have 3 or 4 numbers"),
        ({"positions": THREE, "mrope_section": [3, 3, 3]}, "must add up to 6"),
        (
            {
                "positions": torch.zeros(4, TOKENS).long(),
                "mrope_section": [0, 3, 3, 0],
                "cache_mode": "interleave",
            },
            "'interleave' does not take mrope_section",
        ),
        ({"head_size": 8}, "cos_sin_cache turns 12 elements, and head_size is 8"),
        ({"head_size": 15}, "query rows of 32 are no heads of head_size 15"),
        ({"key": torch.ones(3, SIZE)}, "key must be .tokens, heads . head_size."),
        ({"key": torch.ones(TOKENS, SIZE).half()}, "cos_sin_cache must be float16"),
        ({"positions": torch.full((TOKENS,), 7)}, "index 7 is out of bounds"),
    ],
)
def test_errors(change, text) -> None:
    with pytest.raises((RuntimeError, IndexError), match=f"npu_mrope: .*{text}"):
        torch_npu.npu_mrope(**GIVEN | change)
