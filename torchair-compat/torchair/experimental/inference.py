"""The older place of torchair's functions on formats."""

from .._impl.npu.layouts import npu_format_cast_via_cpu, use_internal_format_weight

__all__ = ["npu_format_cast_via_cpu", "use_internal_format_weight"]
