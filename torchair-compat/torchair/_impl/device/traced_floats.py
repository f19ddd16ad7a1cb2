"""A float of a model is a constant until it changes, also with `dynamic=True`.

There Dynamo passes each float as an input. Operators of torch_npu take plain floats, such
as a norm's epsilon, so the first of them makes constants of all, and Dynamo and AOTAutograd
start again: they would run twice for each graph. For these backends Dynamo follows its
automatic rule instead: a float that has changed becomes an input."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import torch._dynamo.config as settings
from torch._dynamo.variables.builder import VariableBuilder

from anabranch import extension

__all__ = ["with_constant_floats"]

_F = TypeVar("_F", bound=Callable[..., Any])
_MARK = "with_constant_floats"


def with_constant_floats(backend: _F) -> _F:
    """Marks a backend of torch.compile."""
    setattr(backend, _MARK, True)
    _listen()
    return backend


@functools.cache
def _listen() -> None:
    """Lets Dynamo ask here when it meets a float."""
    wrap_symfloat = VariableBuilder.wrap_symfloat

    @functools.wraps(wrap_symfloat)
    def wrap(self: Any, value: float) -> Any:
        if not extension.backend_has(self.tx.output.compiler_fn, _MARK):
            return wrap_symfloat(self, value)
        with settings.patch(assume_static_by_default=True):
            return wrap_symfloat(self, value)

    VariableBuilder.wrap_symfloat = wrap  # type: ignore[method-assign]
