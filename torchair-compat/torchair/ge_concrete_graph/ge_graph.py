"""The older name of torchair.ge's types, and of helpers for converters."""

from .._impl.compile.unsupported import get_default_ge_graph, next_unique_name
from ..ge import DataType, Tensor, TensorSpec
from .utils import (
    auto_convert_to_tensor,
    compat_as_bytes,
    compat_as_bytes_list,
    get_invalid_desc,
)

__all__ = [
    "DataType",
    "Tensor",
    "TensorSpec",
    "auto_convert_to_tensor",
    "compat_as_bytes",
    "compat_as_bytes_list",
    "get_default_ge_graph",
    "get_invalid_desc",
    "next_unique_name",
]
