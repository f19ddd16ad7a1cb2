"""Nodes, types and attributes that converters of operators use."""

from .._impl.ge.nodes import Cast, Clone, Const, custom_op
from .._impl.ge.types import DataType, Format, Tensor, TensorSpec
from . import attr

__all__ = [
    "Cast",
    "Clone",
    "Const",
    "DataType",
    "Format",
    "Tensor",
    "TensorSpec",
    "attr",
    "custom_op",
]
