"""The numbers of dtypes and formats in a graph of IR nodes, and the handles of its
tensors."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any

import torch

from ..dump.picture import DTYPES
from ..operators.element_types import stored_dtype
from ..operators.memory.formats import Format as _Format

__all__ = [
    "DataType",
    "Format",
    "Node",
    "Tensor",
    "TensorSpec",
    "TensorType",
    "dtype_of",
    "number_of",
    "type_of_number",
]

# In order. A name without a number has the number of the one before, plus one.
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


def number_of(dtype: torch.dtype) -> Any:
    """The DataType of a dtype; DT_UNDEFINED if there is none."""
    return DataType[DTYPES.get(dtype, "DT_UNDEFINED")]


def type_of_number(dtype: torch.dtype | int) -> Any:
    """The DataType of a dtype, or of the number by which operators name one. ValueError:
    there is no such dtype."""
    if isinstance(dtype, torch.dtype):
        return number_of(dtype)
    return number_of(stored_dtype(dtype))


def dtype_of(number: int) -> torch.dtype:
    """The dtype of a DataType. ValueError: PyTorch has no such dtype."""
    for dtype, name in DTYPES.items():
        if DataType[name] == number:
            return dtype
    known = ", ".join(sorted(DTYPES.values()))
    text = f"{DataType(number).name} is no dtype of PyTorch; those that are: {known}"
    raise ValueError(text)


class Node:
    """An IR node, which is computed while the graph is traced.

    `values` are its results, as PyTorch's tensors. `constant` is its plain value, if
    that is known.
    """

    def __init__(
        self,
        op_type: str,
        values: Sequence[torch.Tensor],
        constant: Any = None,
        name: str | None = None,
    ) -> None:
        self.type = op_type
        self.name = name or op_type
        self.values = tuple(values)
        self.constant = constant


class Tensor:
    """A result of an IR node. For a node that computes nothing, dtype and rank are
    unknown: DT_UNDEFINED and -1."""

    def __init__(self, node: Any, index: int = 0) -> None:
        self.node = node
        self.index = index
        self.dtype = DataType["DT_UNDEFINED"]
        self.rank = -1
        self._written: torch.Tensor | None = None
        if isinstance(node, Node):
            self.dtype = number_of(self.value.dtype)
            self.rank = self.value.dim()

    @property
    def value(self) -> torch.Tensor:
        """The value of the result. TypeError: the handle belongs to no node."""
        if not isinstance(self.node, Node):
            raise TypeError("this ge.Tensor is no result of a node: it has no value")
        made = self.node.values[self.index]
        return made if self._written is None else self._written

    @property
    def written(self) -> torch.Tensor | None:
        """The value that a node has written to it last; None if there is none."""
        return self._written

    def write(self, value: torch.Tensor) -> None:
        """Makes later nodes read the value. ValueError: its sizes differ."""
        if value.dim() != self.rank:
            raise ValueError(
                f"a value of rank {value.dim()} can't be written to one of {self.rank}"
            )
        self._written = value.to(self.value.dtype).expand(self.value.shape)


class TensorType(enum.Enum):
    """What an argument of `auto_convert_to_tensor` may become."""

    TT_ALL = 0
    TT_NUMBER = 1
    TT_INDEX_NUMBER = 2


class TensorSpec:
    """Dtype, rank and sizes of a tensor in a trace."""

    def __init__(self, meta: torch.Tensor) -> None:
        self.dtype = number_of(meta.dtype)
        self.rank = meta.dim()
        self.size = list(meta.shape)
