"""Makes tensors over addresses of the host's memory."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from typing import Any

import torch

__all__ = ["create_npu_tensors"]

_DTYPES = (
    *(torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.bool),
    *(torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8),
)


def create_npu_tensors(
    shape: Sequence[int], dtype: torch.dtype, addresses: Sequence[int]
) -> list[torch.Tensor]:
    """A tensor over the memory at each address.

    shape      sizes of all tensors: a list of ints
    dtype      their torch.dtype
    addresses  a list of ints. The memory must live as long as the tensor over it

    TypeError, ValueError: an argument is none of these. RuntimeError: a size is
    negative, or an address is 0 although a tensor has elements.
    """
    _check_ints("shape", shape)
    _check_ints("addresses", addresses)
    if not isinstance(dtype, torch.dtype):
        raise TypeError(f"dtype only support ['torch.dtype'], but got {_kind(dtype)}")
    if dtype not in _DTYPES:
        raise ValueError(f"unsupported dtype {dtype}")
    nowhere = 0 in addresses and 0 not in shape
    if any(size < 0 for size in shape) or nowhere:
        raise RuntimeError(
            f"create_npu_tensors: no memory of the shape {list(shape)} at {addresses}"
        )
    return [_over(shape, dtype, address) for address in addresses]


def _over(shape: Sequence[int], dtype: torch.dtype, address: int) -> torch.Tensor:
    count = math.prod(shape)
    if not count:
        return torch.empty(*shape, dtype=dtype)
    memory = (ctypes.c_char * (count * dtype.itemsize)).from_address(address)
    return torch.frombuffer(memory, dtype=dtype, count=count).reshape(shape)


def _check_ints(name: str, values: Any) -> None:
    if not isinstance(values, list | tuple):
        raise TypeError(
            f"{name} only support ['list', 'tuple'], but got {_kind(values)}"
        )
    for value in values:
        if not isinstance(value, int):
            raise TypeError(
                f"{name} inner type only support int, but got {_kind(value)}"
            )


def _kind(value: object) -> str:
    return type(value).__name__
