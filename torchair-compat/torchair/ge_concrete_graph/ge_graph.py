"""The older place of torchair.ge's types."""

from ..ge import DataType, Tensor, TensorSpec

__all__ = ["DataType", "Tensor", "TensorSpec"]
