"""Numbers of dtypes and formats in a graph of IR nodes, and handles of its tensors."""

from __future__ import annotations

import enum
from typing import Any

import torch

from .._impl.dump.picture import DTYPES
from .._impl.npu.formats import Format as _Format

__all__ = ["DataType", "Format", "Tensor", "TensorSpec"]

# In order; a number where it is not the one before and one.
_DTYPES = (
    "FLOAT FLOAT16 INT8 INT32 UINT8 INT16=6 UINT16 UINT32 INT64 UINT64 DOUBLE BOOL"
    " STRING DUAL_SUB_INT8 DUAL_SUB_UINT8 COMPLEX64 COMPLEX128 QINT8 QINT16 QINT32"
    " QUINT8 QUINT16 RESOURCE STRING_REF DUAL VARIANT BF16 UNDEFINED INT4 UINT1 INT2"
    " UINT2 COMPLEX32 HIFLOAT8 FLOAT8_E5M2 FLOAT8_E4M3FN FLOAT8_E8M0 FLOAT4_E2M1=40"
    " FLOAT4_E1M2 MAX"
)


def _numbered() -> dict[str, int]:
    found: dict[str, int] = {}
    following = 0
    for text in _DTYPES.split():
        name, _, number = text.partition("=")
        found[f"DT_{name}"] = following = int(number) if number else following
        following += 1
    return found


DataType = enum.IntEnum("DataType", _numbered())  # type: ignore[misc]
Format = enum.IntEnum(  # type: ignore[misc]
    "Format",
    {
        name: int(value)
        for name, value in _Format.__members__.items()
        if name.startswith("FORMAT_")
    },
)


class Tensor:
    """A result of an IR node. This host has no such nodes, and makes none."""

    def __init__(self, node: Any, index: int = 0) -> None:
        self.node = node
        self.index = index
        self.dtype = DataType["DT_UNDEFINED"]
        self.rank = -1


class TensorSpec:
    """Dtype, rank and sizes of a tensor of a trace."""

    def __init__(self, meta: torch.Tensor) -> None:
        self.dtype = DataType[DTYPES.get(meta.dtype, "DT_UNDEFINED")]
        self.rank = meta.dim()
        self.size = list(meta.shape)
