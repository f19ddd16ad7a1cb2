"""The older name of torchair's functions on memory formats."""

from .._impl.operators.memory.layouts import (
    npu_format_cast_via_cpu,
    use_internal_format_weight,
)

__all__ = ["npu_format_cast_via_cpu", "use_internal_format_weight"]
