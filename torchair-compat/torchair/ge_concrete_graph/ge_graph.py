"""The older name of torchair.ge's types."""

from .._impl.compile.unsupported import get_default_ge_graph, next_unique_name
from ..ge import DataType, Tensor, TensorSpec

__all__ = [
    "DataType",
    "Tensor",
    "TensorSpec",
    "get_default_ge_graph",
    "next_unique_name",
]
