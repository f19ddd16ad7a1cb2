"""Attributes of IR nodes: one class for each kind."""

from .._impl.ge.attributes import (
    Bool,
    DataType,
    Float,
    Int,
    ListBool,
    ListDataType,
    ListFloat,
    ListInt,
    ListListFloat,
    ListListInt,
    ListStr,
    Str,
)

__all__ = [
    "Bool",
    "DataType",
    "Float",
    "Int",
    "ListBool",
    "ListDataType",
    "ListFloat",
    "ListInt",
    "ListListFloat",
    "ListListInt",
    "ListStr",
    "Str",
]
