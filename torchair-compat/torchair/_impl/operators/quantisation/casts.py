"""Casts between dtypes, those that PyTorch has no dtype for among them.

After Ascend's API reference of torch_npu, page npu_dtype_cast."""

from __future__ import annotations

import torch
from torch import Tensor

from ..checks import check
from ..definition import npu_operator
from ..element_types import ElementType, element_type, known_names
from ..schema import Written
from .small_floats import pack_pairs, unpack_pairs

_BYTES = (torch.uint8, torch.int8)


@npu_operator
def npu_dtype_cast(self: Tensor, dtype: int, input_dtype: int | None = None) -> Tensor:
    """The tensor in another dtype, as `Tensor.to` casts.

    dtype        a dtype, or a number of torch_npu: hifloat8, float4_e2m1fn_x2,
                 float4_e1m2fn_x2 and int4 are bytes of uint8, the latter three with two
                 elements each, the first in the lower bits
    input_dtype  what bytes of `self` stand for

    hifloat8 is rounded to the nearest, halves away from zero; the others half to even.
    Values beyond the largest of four bits become the largest. RuntimeError: another dtype,
    or an odd last dimension for two elements in a byte.
    """
    name = "npu_dtype_cast"
    element = element_type(dtype, name, "dtype", known_names())
    values = self
    if input_dtype is not None:
        source = element_type(input_dtype, name, "input_dtype", known_names())
        values = _loaded(self, source, name)
    if element.name == "int4":
        _check_even(values, name)
        return pack_pairs(values.to(torch.int32).clamp(-8, 7) & 15)
    if element.floats is None or element.stored != torch.uint8:
        return values.to(element.stored)
    if element.is_packed:
        _check_even(values, name)
    wide = values.to(torch.float32)
    return element.store(element.floats.encode(wide, _rounding(element)))


def _rounding(element: ElementType) -> str:
    return "round" if element.name == "hifloat8" else "rint"


def _loaded(tensor: Tensor, source: ElementType, name: str) -> Tensor:
    """What the bytes of a tensor stand for, f32 or int32. The tensor, if it has the dtype."""
    if tensor.dtype == source.stored and source.stored not in _BYTES:
        return tensor
    fits = tensor.dtype in _BYTES and source.stored in (torch.uint8, tensor.dtype)
    text = f"input_dtype must be the input's, {tensor.dtype}, got {source.name}"
    check(fits, name, text)
    if source.name == "int4":
        return (unpack_pairs(tensor) ^ 8) - 8
    return tensor if source.floats is None else source.load(tensor)


def _check_even(values: Tensor, name: str) -> None:
    even = values.dim() > 0 and values.shape[-1] % 2 == 0
    shape = tuple(values.shape)
    check(even, name, f"the last dimension of input must be even, got {shape}")


@npu_operator
def _npu_dtype_cast(self: Tensor, dtype: torch.dtype) -> Tensor:
    """The tensor in another dtype of PyTorch."""
    return self.to(dtype)


@npu_operator
def npu_dtype_cast_(self: Written, src: Tensor) -> Written:
    """Writes the values of `src` into `self`, cast to its dtype. RuntimeError: shapes that
    do not fit."""
    return self.copy_(src)
