"""torchair.llm_datadist: tensors over memory that another object owns."""

from .._impl.device.pointers import create_npu_tensors

__all__ = ["create_npu_tensors"]
