"""Floats of four and eight bits as integers: exact conversions in both directions.

The conversions are integer arithmetic on the bits of an f32, so that a compiled graph has
one kernel for them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = [
    "E1M2",
    "E2M1",
    "E4M3",
    "E5M2",
    "HIFLOAT8",
    "ROUNDINGS",
    "HiFloat8",
    "SmallFloat",
    "bits_of",
    "pack_pairs",
    "power_above",
    "power_of_two",
    "scale_values",
    "unpack_pairs",
]

_F32_MANTISSA, _F32_BIAS = 23, 127


def bits_of(values: Tensor) -> Tensor:
    """The bits of f32 values, int32."""
    return values.view(torch.int32)


def power_of_two(exponent: Tensor) -> Tensor:
    """2 to int32 exponents from -126 to 127, as f32."""
    return ((exponent + _F32_BIAS) << _F32_MANTISSA).view(torch.float32)


def power_above(values: Tensor) -> Tensor:
    """The least power of two that is not below, of positive normal f32 numbers."""
    bits = bits_of(values)
    more = ((bits & ((1 << _F32_MANTISSA) - 1)) > 0).to(torch.int32)
    return power_of_two((bits >> _F32_MANTISSA) - _F32_BIAS + more)


def scale_values(codes: Tensor) -> Tensor:
    """The f32 values of e8m0 codes: 2^(code - 127), and NaN for 255. The codes are int32,
    or bytes of a tensor that a caller gave."""
    if codes.dtype == torch.int32:
        code = codes
    else:
        code = codes.view(torch.uint8).to(torch.int32)
    # 2^-127 is a subnormal f32.
    bits = torch.where(code == 0, 0x400000, code << _F32_MANTISSA)
    return torch.where(code == 255, 0x7FC00000, bits).view(torch.float32)


def _exponent(magnitude: Tensor) -> Tensor:
    return (bits_of(magnitude) >> _F32_MANTISSA) - _F32_BIAS


def _to_even(magnitude: Tensor, negative: Tensor) -> Tensor:
    return magnitude.round()


def _half_away(magnitude: Tensor, negative: Tensor) -> Tensor:
    return (magnitude + 0.5).floor()


def _down(magnitude: Tensor, negative: Tensor) -> Tensor:
    return torch.where(negative, magnitude.ceil(), magnitude.floor())


# By the names of round_mode: rounds a magnitude, given which of the numbers are negative.
ROUNDINGS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "rint": _to_even,
    "round": _half_away,
    "floor": _down,
}


@dataclass(frozen=True)
class SmallFloat:
    """A float with a sign, some bits of exponent, and `mantissa` bits.

    bits      of a number
    least     the exponent of the smallest normal number, and of all subnormal ones
    emax      the exponent of the largest number
    largest   the largest number
    nan       the code of NaN; 0 in a format without NaN
    infinity  the code of infinity; none if 0
    """

    bits: int
    mantissa: int
    least: int
    emax: int
    largest: float
    nan: int = 0
    infinity: int = 0

    def encode(self, values: Tensor, rounding: str = "rint") -> Tensor:
        """The int32 codes of f32 values. Values beyond the largest become the largest."""
        negative = bits_of(values) < 0
        magnitude = values.abs().clamp(max=self.largest)
        exponent = _exponent(magnitude).clamp(min=self.least)
        steps = magnitude * power_of_two(self.mantissa - exponent)
        steps = ROUNDINGS[rounding](steps, negative).to(torch.int32)
        # The leading bit of a normal number's steps adds one to the exponent's bits.
        code = ((exponent - self.least) << self.mantissa) + steps
        code = torch.where(values.isnan(), self.nan, code)
        return torch.where(negative, code | (1 << (self.bits - 1)), code)

    def decode(self, codes: Tensor) -> Tensor:
        """The f32 values of codes."""
        codes = codes.to(torch.int32)
        code = codes & ((1 << (self.bits - 1)) - 1)
        field = code >> self.mantissa
        steps = code & ((1 << self.mantissa) - 1)
        steps = torch.where(field > 0, steps + (1 << self.mantissa), steps)
        exponent = field.clamp(min=1) - 1 + self.least - self.mantissa
        values = steps.to(torch.float32) * power_of_two(exponent)
        if self.infinity:
            values = torch.where(code >= self.infinity, torch.inf, values)
            values = torch.where(code > self.infinity, torch.nan, values)
        elif self.nan:
            values = torch.where(code == self.nan, torch.nan, values)
        return torch.where(codes >> (self.bits - 1) == 1, -values, values)


E4M3 = SmallFloat(8, 3, -6, 8, 448.0, nan=0x7F)
E5M2 = SmallFloat(8, 2, -14, 15, 57344.0, nan=0x7F, infinity=0x7C)
E2M1 = SmallFloat(4, 1, 0, 2, 6.0)
E1M2 = SmallFloat(4, 2, 0, 0, 1.75)


class HiFloat8:
    """Eight bits whose mantissa shrinks from three bits to one as the exponent grows.

    After the sign a prefix says how many bits the exponent has: 11, 10, 01, 001, 0001 for
    4, 3, 2, 1, 0. The first of these bits is the exponent's sign, and its magnitude has a
    leading one that is not stored. The prefix 0000 has three bits m: 2^(m - 23), or zero.
    """

    bits, emax, largest = 8, 15, 32768.0
    _NAN, _INFINITY = 0x80, 0x6F
    # (exponents from here on, bits of the exponent, prefix, bits of the mantissa)
    _ROWS = (
        (0, 0, 0b0001, 3),
        (1, 1, 0b001, 3),
        (2, 2, 0b01, 3),
        (4, 3, 0b10, 2),
        (8, 4, 0b11, 1),
    )
    _SUBNORMAL = -16  # numbers below 2^-15 are powers of two

    def encode(self, values: Tensor, rounding: str = "round") -> Tensor:
        """The int32 codes of f32 values, rounded to the nearest, halves away from zero.
        1.25 * 2^15 and more become infinity."""
        negative = bits_of(values) < 0
        # Infinity has the code of 1.5 * 2^15.
        magnitude = values.abs().clamp(max=1.5 * 2**15)
        exponent = _exponent(magnitude).clamp(min=-23)
        size = torch.where(exponent <= self._SUBNORMAL, 0, self._mantissa(exponent))
        steps = (
            (magnitude * power_of_two(size - exponent) + 0.5).floor().to(torch.int32)
        )
        carried = steps == (2 << size)
        exponent = torch.where(carried, exponent + 1, exponent)
        # A carry leaves a mantissa of zeros, whatever its size is now.
        size = self._mantissa(exponent)
        steps = torch.where(carried, 0, steps - (1 << size))
        code = self._normal(exponent, steps)
        power = (exponent + 23).clamp(min=1)
        code = torch.where(exponent <= self._SUBNORMAL, power, code)
        code = torch.where(magnitude < 2.0**-23, 0, code)
        signed = torch.where(negative & (code > 0), code | 0x80, code)
        return torch.where(values.isnan(), self._NAN, signed)

    def decode(self, codes: Tensor) -> Tensor:
        """The f32 values of codes."""
        codes = codes.to(torch.int32)
        code = codes & 0x7F
        values = torch.where(code > 0, power_of_two(code - 23), 0.0)
        for _, width, prefix, mantissa in self._ROWS:
            first = prefix << (width + mantissa)
            inside = code - first
            steps = inside & ((1 << mantissa) - 1)
            exponent = inside >> mantissa
            if width > 0:
                rest = exponent & ((1 << (width - 1)) - 1)
                size = rest + (1 << (width - 1))
                exponent = torch.where(exponent >> (width - 1) == 1, -size, size)
            else:
                exponent = torch.zeros_like(inside)
            made = (steps + (1 << mantissa)).to(torch.float32)
            made = made * power_of_two(exponent - mantissa)
            values = torch.where(code >= first, made, values)
        values = torch.where(code == self._INFINITY, torch.inf, values)
        values = torch.where(codes >= 0x80, -values, values)
        return torch.where(codes == self._NAN, torch.nan, values)

    def _mantissa(self, exponent: Tensor) -> Tensor:
        size = exponent.abs()
        return 3 - (size >= 4).to(torch.int32) - (size >= 8).to(torch.int32)

    def _normal(self, exponent: Tensor, steps: Tensor) -> Tensor:
        size, below = exponent.abs(), (exponent < 0).to(torch.int32)
        code = steps
        for least, width, prefix, mantissa in self._ROWS:
            made = steps + (prefix << (width + mantissa))
            if width > 0:
                rest = size - (1 << (width - 1)) + (below << (width - 1))
                made = made + (rest << mantissa)
            code = torch.where(size >= least, made, code)
        return code


HIFLOAT8 = HiFloat8()


def pack_pairs(codes: Tensor) -> Tensor:
    """Packs codes of four bits (..., 2 n) into bytes (..., n), the first of two in the
    lower bits."""
    pairs = codes.unflatten(-1, (-1, 2))
    return (pairs[..., 0] | (pairs[..., 1] << 4)).to(torch.uint8)


def unpack_pairs(packed: Tensor) -> Tensor:
    """The int32 codes (..., 2 n) of bytes (..., n)."""
    wide = packed.view(torch.uint8).to(torch.int32)
    return torch.stack([wide & 15, wide >> 4], -1).flatten(-2)
