"""Has Dynamo take more into the graphs of this backend than into those of others.

Dynamo breaks its graph at `nn.LSTM`, `nn.GRU` and `nn.RNN`, and where data decides a
size or a number (`x[x > 0]`, `nonzero`, `.item()`), unless settings are on that other
backends of the process must not see. So they are on while Dynamo compiles a frame for a
backend that asks for them. Where gradients are computed, and under autocast, PyTorch runs
recurrent layers as before."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any

import torch
import torch._dynamo.config as settings
from torch._dynamo import convert_frame
from torch._dynamo.exc import BackendCompilerFailed
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

from .. import dynamo_lock
from .recurrent.tracing import taken_in

_RECURRENT = "takes_recurrent_layers"
_RUN_SIZES = "takes_run_sizes"
# Where a wrapper keeps the backend that it wraps.
_INNER = ("_torchdynamo_orig_backend", "compiler_fn", "func")
# The position of `one_graph` among the arguments of Dynamo's `_compile`.
_ONE_GRAPH = 6


def takes_recurrent_layers(backend: Callable[..., Any]) -> Callable[..., Any]:
    """Marks a backend whose graphs have recurrent layers as operators."""
    setattr(backend, _RECURRENT, True)
    _listen()
    return backend


def takes_run_sizes(backend: Callable[..., Any]) -> Callable[..., Any]:
    """Marks a backend whose graphs have sizes and numbers that data decide."""
    setattr(backend, _RUN_SIZES, True)
    _listen()
    return backend


def _asks(backend: Any, mark: str) -> bool:
    while backend is not None:
        if getattr(backend, mark, False):
            return True
        found = (getattr(backend, name, None) for name in _INNER)
        backend = next((inner for inner in found if inner is not None), None)
    return False


@functools.cache
def _listen() -> None:
    """Lets each compilation of Dynamo begin here."""
    compile_frame = convert_frame._compile

    @functools.wraps(compile_frame)
    def begin(*args: Any, **kwargs: Any) -> Any:
        backends = list(filter(callable, args))
        layers = not torch.is_grad_enabled() and any(
            _asks(backend, _RECURRENT) for backend in backends
        )
        with taken_in() if layers else contextlib.nullcontext():
            if any(_asks(backend, _RUN_SIZES) for backend in backends):
                return _with_run_sizes(compile_frame, *args, **kwargs)
            return compile_frame(*args, **kwargs)

    convert_frame._compile = begin


def _with_run_sizes(compile_frame: Any, *args: Any, **kwargs: Any) -> Any:
    """Compiles a frame with sizes that data decide in its graph. Dynamo has errors for
    code that uses such a number in a way that it cannot trace (`items[x.item()]`). It
    compiles this frame again, and breaks the graph where the number comes from."""
    whole = settings.patch(
        capture_dynamic_output_shape_ops=True, capture_scalar_outputs=True
    )
    try:
        with dynamo_lock.held(), whole:
            return compile_frame(*args, **kwargs)
    except (GuardOnDataDependentSymNode, BackendCompilerFailed) as error:
        if args[_ONE_GRAPH] or not _depends_on_data(error):
            raise
    return compile_frame(*args, **kwargs)


def _depends_on_data(error: Exception) -> bool:
    inner = getattr(error, "inner_exception", error)
    return isinstance(inner, GuardOnDataDependentSymNode)
