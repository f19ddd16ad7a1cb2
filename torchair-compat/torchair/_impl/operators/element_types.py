"""The numbers by which torch_npu's operators name dtypes, and what tensors hold them.

PyTorch has a dtype for some of these types only. An operator therefore takes a number:
PyTorch's own for its dtypes (a caller may give the dtype), and torch_npu's for the rest."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from .checks import check
from .quantisation.small_floats import (
    E1M2,
    E2M1,
    E4M3,
    E5M2,
    HIFLOAT8,
    HiFloat8,
    SmallFloat,
    pack_pairs,
    unpack_pairs,
)

__all__ = [
    "ELEMENT_NUMBERS",
    "ElementType",
    "element_type",
    "given_type",
    "known_names",
    "number_of",
    "scalar_type",
    "stored_dtype",
]


@dataclass(frozen=True)
class ElementType:
    """A type of elements. Two elements of four bits are packed into a byte of uint8."""

    name: str
    stored: torch.dtype
    floats: SmallFloat | HiFloat8 | None = None

    @property
    def is_packed(self) -> bool:
        return self.floats is not None and self.floats.bits == 4

    def store(self, codes: Tensor) -> Tensor:
        """The tensor that callers see, of int32 codes."""
        if self.is_packed:
            return pack_pairs(codes)
        return codes.to(torch.uint8).view(self.stored)

    def load(self, tensor: Tensor) -> Tensor:
        """The f32 values of a tensor that callers see."""
        if self.floats is None:
            return tensor.to(torch.float32)
        if self.is_packed:
            return self.floats.decode(unpack_pairs(tensor))
        return self.floats.decode(tensor.view(torch.uint8))


# What torch_npu has by these names.
ELEMENT_NUMBERS = {
    "int4": 285,
    "hifloat8": 290,
    "float8_e5m2": 291,
    "float8_e4m3fn": 292,
    "float8_e8m0fnu": 293,
    "float4_e2m1fn_x2": 296,
    "float4_e1m2fn_x2": 297,
}

_SMALL = {
    "hifloat8": ElementType("hifloat8", torch.uint8, HIFLOAT8),
    "float8_e5m2": ElementType("float8_e5m2", torch.float8_e5m2, E5M2),
    "float8_e4m3fn": ElementType("float8_e4m3fn", torch.float8_e4m3fn, E4M3),
    "float8_e8m0fnu": ElementType("float8_e8m0fnu", torch.uint8),
    "float4_e2m1fn_x2": ElementType("float4_e2m1fn_x2", torch.uint8, E2M1),
    "float4_e1m2fn_x2": ElementType("float4_e1m2fn_x2", torch.uint8, E1M2),
    "int4": ElementType("int4", torch.uint8),
}

# PyTorch's numbers of its dtypes.
_TORCH_NUMBERS = {
    0: torch.uint8,
    1: torch.int8,
    2: torch.int16,
    3: torch.int32,
    4: torch.int64,
    5: torch.float16,
    6: torch.float32,
    7: torch.float64,
    11: torch.bool,
    15: torch.bfloat16,
    16: torch.quint4x2,
    23: torch.float8_e5m2,
    24: torch.float8_e4m3fn,
    44: torch.float8_e8m0fnu,
    45: torch.float4_e2m1fn_x2,
}


def _plain_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _known() -> dict[int, ElementType]:
    types = {number: _SMALL[name] for name, number in ELEMENT_NUMBERS.items()}
    for number, dtype in _TORCH_NUMBERS.items():
        name = _plain_name(dtype)
        types[number] = _SMALL.get(name, ElementType(name, dtype))
    return types


_TYPES = _known()


def element_type(
    number: int, name: str, argument: str, allowed: tuple[str, ...]
) -> ElementType:
    """The type of this number. RuntimeError, with the operator and the argument, unless it
    is one of these names."""
    found = _TYPES.get(number)
    known = found is not None and found.name in allowed
    given = number if found is None else f"{found.name} ({number})"
    check(known, name, f"{argument} must be {', '.join(allowed)}, got {given}")
    assert found is not None
    return found


def number_of(dtype: torch.dtype | int | None) -> int | None:
    """The number of a dtype, for a function that PyTorch does not call."""
    if not isinstance(dtype, torch.dtype):
        return dtype
    return next((n for n, known in _TORCH_NUMBERS.items() if known == dtype), -1)


def scalar_type(
    number: int | None, name: str, argument: str, allowed: tuple[torch.dtype, ...]
) -> torch.dtype | None:
    """PyTorch's dtype of this number, one of these. RuntimeError as element_type."""
    if number is None:
        return None
    return element_type(
        number, name, argument, tuple(_plain_name(dtype) for dtype in allowed)
    ).stored


def given_type(
    tensor: Tensor,
    number: int | None,
    name: str,
    argument: str,
    allowed: tuple[str, ...],
) -> ElementType:
    """The type of a tensor's elements: what the number says, or else its dtype."""
    if number is not None:
        found = element_type(number, name, f"{argument}_dtype", allowed)
        fits = tensor.dtype in (found.stored, torch.uint8, torch.int8)
        text = f"{argument} of {found.name} must be {found.stored}, got {tensor.dtype}"
        check(fits, name, text)
        return found
    dtype = _plain_name(tensor.dtype)
    text = f"{argument} must be {', '.join(allowed)}, got {dtype}"
    check(dtype in allowed and dtype in _SMALL, name, text)
    return _SMALL[dtype]


def stored_dtype(number: int) -> torch.dtype:
    """The dtype of tensors that hold elements of this type. ValueError: there is no such
    number."""
    if number not in _TYPES:
        raise ValueError(f"no dtype has the number {number}: {sorted(_TYPES)}")
    return _TYPES[number].stored


def known_names() -> tuple[str, ...]:
    """The names of all types."""
    return tuple(dict.fromkeys(one.name for one in _TYPES.values()))
