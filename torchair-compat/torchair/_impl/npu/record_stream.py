"""Tensor.record_stream for streams of torch.npu, in eager code and under Dynamo.

The method has nothing to do. A graph's memory plan knows every stream that reads a
value, and in eager code work is done when a call returns."""

from __future__ import annotations

from typing import Any

import torch
from torch._dynamo.variables.constant import ConstantVariable
from torch._dynamo.variables.tensor import TensorVariable

from .npu import Stream

__all__ = ["install"]


def install() -> None:
    _install_eager()
    _install_traced()


def _install_eager() -> None:
    original = torch.Tensor.record_stream

    def record_stream(self: torch.Tensor, s: Any) -> None:
        if not isinstance(s, Stream):
            original(self, s)

    record_stream.__doc__ = original.__doc__
    torch.Tensor.record_stream = record_stream


def _install_traced() -> None:
    """Adds the method to Dynamo, which knows it by name and refuses streams other than
    torch.Stream."""
    original = TensorVariable.method_record_stream

    def method_record_stream(self: Any, tx: Any, stream: Any) -> Any:
        if stream.python_type() is Stream:
            return ConstantVariable.create(None)
        return original(self, tx, stream)

    TensorVariable.method_record_stream = method_record_stream
