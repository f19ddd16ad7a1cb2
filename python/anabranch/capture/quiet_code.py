"""Leaves out of Dynamo's code what measures Dynamo itself.

Around each call of a graph, Dynamo's code calls two functions that mark the call for
PyTorch's profiler. Where a model has used the caches, they take a fifth of what a call
costs Dynamo beside its guards. A setting of Dynamo decides, which Dynamo reads after the
backend has returned. So the setting changes back when the code is made."""

from __future__ import annotations

import functools
import types
from contextvars import ContextVar

import torch._dynamo.config as settings
from torch._guards import TracingContext

# Whether this module has changed the setting. Each thread has its own setting.
_changed: ContextVar[bool] = ContextVar("changed", default=False)


def begin() -> None:
    """The code that this thread's compilation makes for its graph does not measure
    itself. To be called by a backend that Dynamo has called."""
    if TracingContext.try_get() is None:
        return
    if getattr(settings, "record_runtime_overhead", False):
        _listen()
        settings.record_runtime_overhead = False
        _changed.set(True)


def end() -> None:
    """Restores the setting."""
    if _changed.get():
        settings.record_runtime_overhead = True
        _changed.set(False)


@functools.cache
def _listen() -> None:
    """Restores the setting after each compilation."""
    from torch._dynamo.convert_frame import register_bytecode_hook

    def made(_: types.CodeType, __: types.CodeType) -> None:
        end()

    register_bytecode_hook(made)
