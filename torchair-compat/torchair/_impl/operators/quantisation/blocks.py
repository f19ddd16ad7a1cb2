"""Blocks of a tensor that share a scale which is a power of two: the MX formats.

After the reference of Ascend's kernels, page aclnnDynamicMxQuantV3, whose three scenarios
are the three ways to choose a scale."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from ..checks import check
from ..element_types import ElementType, element_type
from .small_floats import SmallFloat, bits_of, scale_values

__all__ = ["MX_TYPES", "MxBlocks", "check_rounding", "mx_blocks"]

_MANTISSA, _LEADING = 23, 0x400000
_FOURS = ("float4_e2m1fn_x2", "float4_e1m2fn_x2")
MX_TYPES = (*_FOURS, "float8_e4m3fn", "float8_e5m2")
_E8M0_NAN = 255


@dataclass(frozen=True)
class MxBlocks:
    """How blocks are quantised.

    element   the type of the elements
    size      the elements of a block
    rounding  of an element
    choose    the scale of a block, an e8m0 code, from its largest magnitude
    """

    element: ElementType
    size: int
    rounding: str
    choose: Callable[[Tensor], Tensor]

    def quantise(
        self, x: Tensor, axis: int = -1, seen: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """The elements as callers see them, and the scales of blocks along the axis: uint8,
        with half as many places along the axis as there are blocks (rounded up), and two
        scales in a new last dimension. An odd number of blocks is filled up with 0.
        `seen`: numbers in the place of x whose largest decide the scales."""
        rows = x.to(torch.float32).movedim(axis, -1)
        codes, scales = self.codes(
            rows, None if seen is None else seen.movedim(axis, -1)
        )
        pairs = functional.pad(scales, (0, scales.shape[-1] % 2)).unflatten(-1, (-1, 2))
        place = axis if axis >= 0 else axis + x.dim()
        stored = self.element.store(codes.movedim(-1, axis))
        return stored, pairs.to(torch.uint8).movedim(-2, place)

    def codes(self, rows: Tensor, seen: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The int32 codes of f32 rows (..., n), and the scales of their blocks (..., b)."""
        floats = self.element.floats
        assert floats is not None
        width = rows.shape[-1]
        blocks = self._blocks(rows)
        counted = blocks if seen is None else self._blocks(seen)
        scales = self.choose(counted.abs().amax(-1))
        # The scale is a power of two: its inverse is exact.
        inverse = scale_values((254 - scales).clamp(min=0))
        inverse = torch.where(scales == _E8M0_NAN, torch.nan, inverse)
        codes = floats.encode(blocks * inverse.unsqueeze(-1), self.rounding)
        return codes.flatten(-2)[..., :width], scales

    def _blocks(self, rows: Tensor) -> Tensor:
        filled = functional.pad(rows, (0, -rows.shape[-1] % self.size))
        return filled.unflatten(-1, (-1, self.size))


def mx_blocks(
    name: str,
    number: int,
    rounding: str,
    *,
    size: int = 32,
    algorithm: int | None = 0,
    largest: float = 0.0,
    floor: float = 0.0,
    argument: str = "dst_type",
) -> MxBlocks:
    """The blocks that the arguments of an operator ask for.

    algorithm  0 takes the exponent of the largest magnitude, less the exponent of the
               type's largest number; 1 divides by the type's largest number and rounds the
               quotient up to a power of two, for types of eight bits; 2 does so for e2m1,
               by the number `largest` from 6 to 12 (0: 6)
    floor      the least magnitude that algorithm 1 counts with

    RuntimeError: another type, rounding, size or algorithm.
    """
    element = element_type(number, name, argument, MX_TYPES)
    check_rounding(element, rounding, name)
    fits = size > 0 and size % 32 == 0 and size <= 1024
    check(fits, name, f"block_size must be a multiple of 32 up to 1024, got {size}")
    algorithm = 0 if algorithm is None else algorithm
    known = {"float4_e2m1fn_x2": (0, 2), "float4_e1m2fn_x2": (0,)}.get(
        element.name, (0, 1)
    )
    text = f"scale_alg must be one of {known} for {element.name}, got {algorithm}"
    check(algorithm in known, name, text)
    check(algorithm != 2 or size == 32, name, "scale_alg 2 needs block_size 32")
    _check_largest(largest, algorithm, name)
    fits = floor == 0 or (floor > 0 and algorithm == 1)
    check(fits, name, f"max_low_bound must be 0 unless scale_alg is 1, got {floor}")
    return MxBlocks(
        element, size, rounding, _chooser(element, algorithm, largest, floor)
    )


def check_rounding(element: ElementType, rounding: str, name: str) -> None:
    known = ("rint", "floor", "round") if element.name in _FOURS else ("rint",)
    text = f"round_mode must be one of {known} for {element.name}, got {rounding!r}"
    check(rounding in known, name, text)


def _check_largest(largest: float, algorithm: int, name: str) -> None:
    fits = largest == 0 or (6 <= largest <= 12 and algorithm == 2)
    text = "dst_type_max must be 0, or from 6 to 12 with scale_alg 2, got"
    check(fits, name, f"{text} {largest}")


def _chooser(
    element: ElementType, algorithm: int, largest: float, floor: float
) -> Callable[[Tensor], Tensor]:
    floats = element.floats
    assert isinstance(floats, SmallFloat)
    if algorithm == 0:
        return lambda top: _of_exponent(bits_of(top), floats)
    if algorithm == 1:
        return lambda top: _of_quotient(top.clamp(min=floor) / floats.largest)
    # 6 and 7 have two and three bits: a larger mantissa carries into the exponent.
    for most, mantissa in ((6.0, _LEADING), (7.0, _LEADING | _LEADING >> 1)):
        if (largest or floats.largest) == most:
            carry = (1 << _MANTISSA) - 1 - mantissa
            return lambda top: _of_exponent(bits_of(top) + carry, floats)
    return lambda top: _of_quotient(top / largest, subnormal=False)


def _of_exponent(bits: Tensor, floats: SmallFloat) -> Tensor:
    field = bits >> _MANTISSA
    scale = (field - floats.emax).clamp(min=0)
    return torch.where(field >= _E8M0_NAN, _E8M0_NAN, scale)


def _of_quotient(quotient: Tensor, subnormal: bool = True) -> Tensor:
    bits = bits_of(quotient)
    field, mantissa = bits >> _MANTISSA, bits & ((1 << _MANTISSA) - 1)
    up = (field > 0) & (field < 254) & (mantissa > 0)
    if subnormal:
        up = up | ((field == 0) & (mantissa > _LEADING))
    return torch.where(up, field + 1, field)
