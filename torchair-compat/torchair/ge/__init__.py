"""What converters of operators are written with. They are never called on this host:
compiled graphs call an operator's own kernel."""

from . import attr
from ._nodes import Cast, Clone, Const, custom_op
from ._types import DataType, Format, Tensor, TensorSpec

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
