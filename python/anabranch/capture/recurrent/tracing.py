"""Has Dynamo take recurrent layers into the graphs of this backend.

Dynamo breaks its graph at `nn.LSTM`, `nn.GRU` and `nn.RNN` unless the setting
`allow_rnn` is on, which other backends of the process must not see. So the setting is on
while Dynamo compiles a frame for a backend that says it `takes_recurrent_layers`. Where
gradients are computed, and under autocast, it stays off, and PyTorch runs the layer as
before."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch._dynamo.config as settings
from torch._dynamo import convert_frame

from ... import dynamo_lock
from .. import composites
from .operators import RULES

_MARK = "takes_recurrent_layers"
# Where a wrapper keeps the backend that it wraps.
_INNER = ("_torchdynamo_orig_backend", "compiler_fn", "func")


def takes_recurrent_layers(backend: Callable[..., Any]) -> Callable[..., Any]:
    """Marks a backend of torch.compile."""
    setattr(backend, _MARK, True)
    _listen()
    return backend


@contextlib.contextmanager
def taken_in() -> Iterator[None]:
    """Inside the block traces take recurrent layers in, each as one operator. Under
    autocast, which changes dtypes within a layer, they do not."""
    if torch._C._is_any_autocast_enabled():
        yield
        return
    with (
        dynamo_lock.held(),
        settings.patch(allow_rnn=True),
        composites.kept((), RULES),
    ):
        yield


def _takes(backend: Any) -> bool:
    while backend is not None:
        if getattr(backend, _MARK, False):
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
        asks = not torch.is_grad_enabled() and any(map(_takes, filter(callable, args)))
        with taken_in() if asks else contextlib.nullcontext():
            return compile_frame(*args, **kwargs)

    convert_frame._compile = begin
