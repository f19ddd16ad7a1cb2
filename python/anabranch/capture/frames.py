"""Has Dynamo take more into the graphs of this backend than into those of others.

Dynamo breaks its graph at `nn.LSTM`, `nn.GRU` and `nn.RNN`, and where data decides a
size or a number (`x[x > 0]`, `nonzero`, `.item()`), unless settings are on that other
backends of the process must not see. So they are on while Dynamo compiles a frame for a
backend that asks for them. Where gradients are computed, and under autocast, PyTorch runs
recurrent layers as before.

With `dynamic=True` Dynamo takes each float of a model (an epsilon, a scale) for a number
that changes. It then finds that most cannot be one, and traces the whole model again. So
floats are constants of the first programs of a frame that has no float as an argument. A
program is made again where one changes, as without `dynamic=True`."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch._dynamo.config as settings
from torch._dynamo import convert_frame
from torch._dynamo.exc import BackendCompilerFailed
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

from .. import dynamo_lock
from ..config import Config, resolve
from ..saved import saving
from ..shapes import eager_tier
from . import observer
from .recurrent.tracing import taken_in
from .traces import rare_collections

_RECURRENT = "takes_recurrent_layers"
_RUN_SIZES = "takes_run_sizes"
# Where a wrapper keeps the backend that it wraps.
_INNER = ("_torchdynamo_orig_backend", "compiler_fn", "func")


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


def backend_has(backend: Any, mark: str) -> bool:
    """Whether a backend of torch.compile, or one that it wraps, has a true attribute of
    this name."""
    return any(getattr(one, mark, False) for one in _wrapped(backend))


def _wrapped(backend: Any) -> Iterator[Any]:
    """A backend of torch.compile, and those that it wraps."""
    while backend is not None:
        yield backend
        found = (getattr(backend, name, None) for name in _INNER)
        backend = next((inner for inner in found if inner is not None), None)


@functools.cache
def _listen() -> None:
    """Lets each compilation of Dynamo begin here."""
    compile_frame = convert_frame._compile
    signature = inspect.signature(compile_frame)

    @functools.wraps(compile_frame)
    def begin(*args: Any, **kwargs: Any) -> Any:
        frame = dict(signature.bind(*args, **kwargs).arguments)
        floats = _has_constant_floats(frame)

        def trace(frame: dict[str, Any]) -> Any:
            bound = signature.bind(**frame)
            one = functools.partial(compile_frame, *bound.args, **bound.kwargs)
            return _trace(one, frame, floats)

        return eager_tier.compile(frame, trace)

    convert_frame._compile = begin
    eager_tier.listen(_settings, _is_followed)


def _is_followed() -> bool:
    """Whether someone follows the compilation, to save it."""
    return observer.current() is not None or saving.is_asked()


def _settings(backend: Any) -> Config | None:
    """What the backend of a compiled function was told; None if it is another backend,
    or was told something wrong, which it says itself."""
    if not backend_has(backend, _RECURRENT):
        return None
    told: dict[str, Any] = {}
    for one in _wrapped(backend):
        told |= getattr(one, "keywords", None) or getattr(one, "kwargs", None) or {}
    try:
        return resolve(told.get("options"), told.get("mode"), told.get("config"))
    except (TypeError, ValueError):
        return None


def _trace(
    compile_frame: Callable[[], Any], frame: dict[str, Any], floats: bool
) -> Any:
    """Compiles a frame with what its backend takes in; its floats as constants, if so."""
    backend, whole = frame["compiler_fn"], frame["one_graph"]
    takes_layers = backend_has(backend, _RECURRENT)
    takes_sizes = backend_has(backend, _RUN_SIZES)
    layers = takes_layers and not torch.is_grad_enabled()
    if not (takes_layers or takes_sizes):
        return compile_frame()
    constant = settings.patch(specialize_float=True)
    with rare_collections.rare(), constant if floats else contextlib.nullcontext():
        if takes_sizes:
            return _with_run_sizes(compile_frame, whole, layers)
        # Dynamo takes sizes that data decide into a graph that must be whole.
        with _recurrent(layers, packed=whole):
            return compile_frame()


# So many programs of a frame have constant floats: as many as two sizes need that may be
# one.
_CONSTANT_FLOATS = 4


def _has_constant_floats(frame: dict[str, Any]) -> bool:
    few = len(frame.get("cache_entries", ())) < _CONSTANT_FLOATS
    return few and not _has_float(frame["locals"])


def _has_float(value: object) -> bool:
    if isinstance(value, dict):
        return any(map(_has_float, value.values()))
    if isinstance(value, (list, tuple)):
        return any(map(_has_float, value))
    return isinstance(value, float)


def _recurrent(layers: bool, packed: bool) -> contextlib.AbstractContextManager[None]:
    return taken_in(packed) if layers else contextlib.nullcontext()


def _with_run_sizes(trace: Callable[[], Any], one_graph: bool, layers: bool) -> Any:
    """Compiles a frame with sizes that data decide in its graph. Dynamo has errors for
    code that uses such a number in a way that it cannot trace (`items[x.item()]`). It
    compiles this frame again, and breaks the graph where the number comes from, unless
    the caller wants `one_graph`."""
    taken = settings.patch(
        capture_dynamic_output_shape_ops=True, capture_scalar_outputs=True
    )
    try:
        with dynamo_lock.held(), taken, _recurrent(layers, packed=True):
            return trace()
    except (GuardOnDataDependentSymNode, BackendCompilerFailed) as error:
        if one_graph or not _depends_on_data(error):
            raise
    with _recurrent(layers, packed=False):
        return trace()


def _depends_on_data(error: Exception) -> bool:
    inner = getattr(error, "inner_exception", error)
    return isinstance(inner, GuardOnDataDependentSymNode)
