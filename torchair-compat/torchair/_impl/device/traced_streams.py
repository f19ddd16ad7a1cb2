"""Streams of torch.npu under Dynamo: `with` on streams that were made earlier, and
Tensor.record_stream.

`record_stream` has nothing to do. A graph's memory plan knows every stream that reads a
value, and in eager code work is done when a call returns."""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch._dynamo.guards import GuardBuilder
from torch._dynamo.variables.builder import VariableBuilder
from torch._dynamo.variables.constant import ConstantVariable
from torch._dynamo.variables.ctx_manager import GenericContextWrappingVariable
from torch._dynamo.variables.tensor import TensorVariable

from .npu import Stream

__all__ = ["install"]


def install() -> None:
    _install_eager()
    _install_traced()
    _install_contexts()


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


def _install_contexts() -> None:
    """Has Dynamo take a stream that the compiled function did not make for the context
    manager that it is. Dynamo refuses `with` on objects from outside, since most of
    them have state of their own."""
    original = VariableBuilder.wrap_user_defined

    @functools.wraps(original)
    def wrap_user_defined(self: Any, value: Any) -> Any:
        if not isinstance(value, Stream):
            return original(self, value)
        self.install_guards(GuardBuilder.TYPE_MATCH)
        found = GenericContextWrappingVariable(value, source=self.source)
        return self.tx.output.side_effects.track_object_existing(value, found)

    VariableBuilder.wrap_user_defined = wrap_user_defined  # type: ignore[method-assign]
