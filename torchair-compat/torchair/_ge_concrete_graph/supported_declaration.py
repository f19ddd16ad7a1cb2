"""What converters declare that they support: shapes and dtypes of examples. It has no
effect: `declare_supported` returns the converter."""

from __future__ import annotations

from typing import Any

import torch

__all__ = [
    "BF16",
    "BOOL",
    "F16",
    "F32",
    "F64",
    "I8",
    "I16",
    "I32",
    "I64",
    "U8",
    "Support",
]


class _TypedTensor:
    """A tensor of a dtype and a shape."""

    dtype = torch.float32

    def __init__(self, *dims: int, value: Any = None) -> None:
        self.dims = dims
        self.value = value


class F32(_TypedTensor):
    dtype = torch.float32


class F16(_TypedTensor):
    dtype = torch.float16


class BF16(_TypedTensor):
    dtype = torch.bfloat16


class F64(_TypedTensor):
    dtype = torch.float64


class I8(_TypedTensor):
    dtype = torch.int8


class I16(_TypedTensor):
    dtype = torch.int16


class I32(_TypedTensor):
    dtype = torch.int32


class I64(_TypedTensor):
    dtype = torch.int64


class U8(_TypedTensor):
    dtype = torch.uint8


class BOOL(_TypedTensor):
    dtype = torch.bool


class Support:
    """A call that a converter supports."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.args = args
        self.kwargs = kwargs
