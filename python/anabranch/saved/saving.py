"""Says whether PyTorch saves what is compiled now.

PyTorch asks in its settings: aot_compile and caching_precompile set them for a
compilation, and a user may. Then AOTAutograd pickles what its compilers return, so each
of them returns a SavedGraph."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar

import torch

_on: ContextVar[bool] = ContextVar("anabranch_saving", default=False)


def is_asked() -> bool:
    """Whether PyTorch's settings ask for artefacts."""
    settings = torch._functorch.config
    return bool(
        settings.force_autograd_cache
        or settings.bundled_autograd_cache
        or torch._dynamo.config.caching_precompile
    )


def is_required() -> bool:
    """Whether a compilation without an artefact is an error, as in aot_compile."""
    return bool(torch._functorch.config.force_autograd_cache)


def is_on() -> bool:
    """Whether this thread compiles a graph that PyTorch saves."""
    return _on.get()


@contextlib.contextmanager
def switched(on: bool) -> Iterator[None]:
    """Sets what `is_on` returns inside the block."""
    token = _on.set(on)
    try:
        yield
    finally:
        _on.reset(token)
