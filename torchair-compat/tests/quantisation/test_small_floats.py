"""Conversions of floats of eight and four bits against lists of their values."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from pictures import compiled
from small_numbers import BITS, LARGEST, hifloat8_values, round_to, values_of
from torchair._impl.operators.quantisation.small_floats import (
    E1M2,
    E2M1,
    E4M3,
    E5M2,
    HIFLOAT8,
    pack_pairs,
    scale_values,
    unpack_pairs,
)

FORMATS = {
    "float8_e4m3fn": E4M3,
    "float8_e5m2": E5M2,
    "float4_e2m1fn_x2": E2M1,
    "float4_e1m2fn_x2": E1M2,
}


def numbers() -> torch.Tensor:
    """Numbers of all sizes, halves between steps among them."""
    torch.manual_seed(0)
    sizes = torch.exp2(torch.rand(4000) * 50 - 28)
    ties = torch.cat(
        [
            torch.from_numpy((grid[1:] + grid[:-1]) / 2).float()
            for grid in [values_of(name) for name in FORMATS]
        ]
    )
    whole = torch.cat([sizes, ties, torch.tensor([0.0, 1e30, 2.0**-149, 448.0])])
    return torch.cat([whole, -whole])


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("rounding", ["rint", "round", "floor"])
def test_numbers_become_the_nearest_code(name, rounding) -> None:
    x = numbers()
    wanted = round_to(x.double().numpy(), values_of(name), rounding)
    wanted = wanted | np.signbit(x.numpy()) << (BITS[name] - 1)
    encode = FORMATS[name].encode
    for function in (encode, compiled(encode)):
        np.testing.assert_array_equal(function(x, rounding).numpy(), wanted)


@pytest.mark.parametrize("name", FORMATS)
def test_codes_have_their_values(name) -> None:
    codes = torch.arange(1 << BITS[name], dtype=torch.int32)
    found = FORMATS[name].decode(codes)
    grid = values_of(name)
    np.testing.assert_array_equal(found[: len(grid)].numpy(), grid)
    negative = found[len(codes) // 2 :]
    assert torch.equal(
        negative.nan_to_num(7.0), (-found[: len(negative)]).nan_to_num(7.0)
    )


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2])
def test_pytorch_has_the_same_values(dtype) -> None:
    form = FORMATS[str(dtype).removeprefix("torch.")]
    codes = torch.arange(256, dtype=torch.uint8)
    torch.testing.assert_close(
        form.decode(codes), codes.view(dtype).float(), equal_nan=True, atol=0, rtol=0
    )
    assert form.encode(torch.tensor([torch.nan]))[0] == form.nan


def test_hifloat8_has_the_values_of_its_paper() -> None:
    codes = torch.arange(256, dtype=torch.uint8)
    found = HIFLOAT8.decode(codes).numpy()
    np.testing.assert_array_equal(found[:128], hifloat8_values())
    assert np.isnan(found[128])
    np.testing.assert_array_equal(found[129:], -hifloat8_values()[1:])


def test_hifloat8_rounds_halves_away() -> None:
    """Every code comes back; numbers between two become the nearest, and numbers from 1.25 *
    2^15 on infinity."""
    values = torch.from_numpy(hifloat8_values()).float()
    codes = torch.arange(128, dtype=torch.int32)
    assert torch.equal(HIFLOAT8.encode(values), codes)
    assert torch.equal(HIFLOAT8.encode(-values)[1:], codes[1:] | 128)
    order = np.argsort(hifloat8_values())
    # The next number would be 1.5 * 2^15, which is infinity.
    grid = np.where(np.isinf(hifloat8_values()), 1.5 * 2**15, hifloat8_values())[order]
    x = torch.cat([numbers(), torch.from_numpy((grid[1:] + grid[:-1]) / 2).float()])
    wanted = order[round_to(x.double().numpy(), grid, "round")]
    wanted = np.where(np.signbit(x.numpy()) & (wanted > 0), wanted | 128, wanted)
    for function in (HIFLOAT8.encode, compiled(HIFLOAT8.encode)):
        np.testing.assert_array_equal(function(x).numpy(), wanted)
    assert HIFLOAT8.encode(torch.tensor([torch.nan]))[0] == 128


def test_scales_are_powers_of_two() -> None:
    codes = torch.arange(256, dtype=torch.uint8)
    wanted = codes.view(torch.float8_e8m0fnu).float()
    torch.testing.assert_close(
        scale_values(codes), wanted, equal_nan=True, atol=0, rtol=0
    )


def test_pairs() -> None:
    codes = torch.arange(16, dtype=torch.int32).reshape(2, 8)
    packed = pack_pairs(codes)
    assert packed[0].tolist() == [0x10, 0x32, 0x54, 0x76]
    assert torch.equal(unpack_pairs(packed), codes)


def test_largest() -> None:
    for name, form in FORMATS.items():
        assert form.largest == LARGEST[name]
