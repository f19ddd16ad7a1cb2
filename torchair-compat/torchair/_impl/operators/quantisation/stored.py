"""Rounds f32 values to a type, and stores them as callers see them."""

from __future__ import annotations

from torch import Tensor

from ..element_types import ElementType
from .integers import pack_int4, to_int8

# What rows are quantised to.
ROW_TYPES = ("int8", "quint4x2", "float8_e4m3fn", "float8_e5m2", "hifloat8")


def largest_of(element: ElementType) -> float:
    """The largest number of one of ROW_TYPES."""
    if element.floats is not None:
        return element.floats.largest
    return 127.0 if element.name == "int8" else 7.0


def stored(values: Tensor, element: ElementType) -> Tensor:
    """The values rounded to one of ROW_TYPES: half to even, away from zero for hifloat8.
    Eight int4 are an int32, of rows of a multiple of 8. RuntimeError: other rows."""
    if element.floats is not None:
        rounding = "round" if element.name == "hifloat8" else "rint"
        return element.store(element.floats.encode(values, rounding))
    if element.name == "int8":
        return to_int8(values)
    check_eighths(values.shape[-1])
    return pack_int4(values.round().clamp(-8, 7))


def check_eighths(size: int) -> None:
    """RuntimeError unless 8 divides the size of rows, as int4 in int32 needs."""
    if size % 8:
        raise RuntimeError(f"int4 needs rows of a multiple of 8, got {size}")
