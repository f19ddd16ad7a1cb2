"""Floats of eight bits: conversions equal eager's, for all codes and roundings."""

from __future__ import annotations

import pytest
import torch

import anabranch

SMALL = [
    torch.float8_e4m3fn,
    torch.float8_e5m2,
    torch.float8_e4m3fnuz,
    torch.float8_e5m2fnuz,
]
WIDE = [torch.float32, torch.float64, torch.float16, torch.bfloat16]


def codes(dtype: torch.dtype) -> torch.Tensor:
    """All codes of a small float."""
    return torch.arange(256, dtype=torch.int16).to(torch.uint8).view(dtype)


def numbers() -> torch.Tensor:
    """All f16 and bf16, numbers beside the middle of two codes, and random bits."""
    bits = torch.arange(-(2**15), 2**15).to(torch.int16)
    middles = []
    for dtype in SMALL:
        values = codes(dtype).float()
        values = values[values.isfinite()].sort().values
        middle = (values[1:] + values[:-1]) / 2
        middles += [middle, middle.nextafter(values[1:]), middle.nextafter(values[:-1])]
    random = torch.randint(-(2**31), 2**31, (20000,)).to(torch.int32)
    return torch.cat(
        [
            bits.view(torch.float16).float(),
            bits.view(torch.bfloat16).float(),
            *middles,
            random.view(torch.float32),
        ]
    )


def check(function, *arguments) -> None:
    compiled = torch.compile(function, backend="anabranch", fullgraph=True)
    results, expected = compiled(*arguments), function(*arguments)
    assert anabranch.last_report()["fallbacks"] == []
    for result, wanted in zip(results, expected, strict=True):
        assert result.dtype == wanted.dtype
        if result.dtype in SMALL:
            # PyTorch's comparison has no such dtypes. NaN may have several codes.
            result, wanted = result.float(), wanted.float()
        torch.testing.assert_close(result, wanted, rtol=0, atol=0, equal_nan=True)


def test_every_code_is_widened() -> None:
    def widened(*values):
        return [value.to(wide) for value in values for wide in (*WIDE, torch.bool)]

    check(widened, *map(codes, SMALL))


@pytest.mark.parametrize("wide", WIDE)
def test_numbers_are_rounded_to_the_nearest(wide: torch.dtype) -> None:
    check(lambda x: [x.to(small) for small in SMALL], numbers().to(wide))


def test_small_floats_become_others_and_integers() -> None:
    finite = codes(torch.float8_e5m2)
    finite = finite[finite.float().abs() < 100]

    def converted(x, whole):
        small = [x.to(small) for small in SMALL]
        return [*small, x.to(torch.int32), *(whole.to(small) for small in SMALL)]

    check(converted, finite, torch.arange(-128, 128).to(torch.int8))


def test_bits_are_seen_as_bytes() -> None:
    check(
        lambda x, y: [x.view(torch.uint8) + 1, (y + 1).view(torch.float8_e4m3fn)],
        codes(torch.float8_e5m2),
        torch.arange(100, dtype=torch.uint8),
    )


@pytest.mark.parametrize("dtype", SMALL)
def test_a_cache_of_small_floats_is_written_and_read(dtype: torch.dtype) -> None:
    """As attention does with keys: rows are rounded into a cache, which is read."""

    def step(cache, rows, place):
        cache[place] = rows.to(dtype)
        return cache.to(torch.float32) * 0.5

    compiled = torch.compile(step, backend="anabranch", fullgraph=True)
    place, rows = torch.tensor([3, 0]), torch.randn(2, 40)
    ours, theirs = (torch.zeros(6, 40).to(dtype) for _ in range(2))
    torch.testing.assert_close(
        compiled(ours, rows, place), step(theirs, rows, place), rtol=0, atol=0
    )
    assert anabranch.last_report()["fallbacks"] == []
    torch.testing.assert_close(ours.float(), theirs.float(), rtol=0, atol=0)


def test_constants_are_rounded() -> None:
    def filled(x):
        made = [torch.full((3,), 30.7, dtype=small) for small in SMALL]
        return [*made, *(torch.zeros_like(x, dtype=small) for small in SMALL)]

    check(filled, torch.tensor([0.5, 2.0]))
