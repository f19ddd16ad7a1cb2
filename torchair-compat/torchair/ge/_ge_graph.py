"""The private name of the types that converters use."""

from .._impl.ge.types import DataType, Format, Tensor, TensorSpec, TensorType
from .._impl.ge.types import type_of_number as torch_dtype_value_to_ge_proto_type
from .._impl.ge.types import type_of_number as torch_dtype_value_to_ge_type
from ..ge_concrete_graph.utils import (
    auto_convert_to_tensor,
    compat_as_bytes,
    get_invalid_desc,
)

__all__ = [
    "DataType",
    "Format",
    "Tensor",
    "TensorSpec",
    "TensorType",
    "auto_convert_to_tensor",
    "compat_as_bytes",
    "get_invalid_desc",
    "torch_dtype_value_to_ge_proto_type",
    "torch_dtype_value_to_ge_type",
]
