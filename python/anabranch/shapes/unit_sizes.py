"""Compiles for sizes of one, in the first call.

Dynamo fixes a size of one, and so may the model ("is this one token?"). A symbolic
program does not cover such a size, so its first call would wait for another
compilation. With `shapes="tiered"` no shape may wait; so the first call also compiles
for these sizes, without running them."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils import _pytree as pytree

from .. import _C, dynamo_lock
from ..report import say

Call = Callable[..., Any]

MOST_SYMBOLS = 2


class Seen(threading.local):
    """What the compilations of this thread found: `sizes` of symbols while `_noticing`,
    and whether a graph was `compiled`."""

    sizes: set[int] | None = None
    compiled = False


_seen = Seen()


class NothingCompiled(Exception):
    """The code would run without a compiled graph."""


def notice(symbols: list[dict[str, Any]]) -> None:
    """Notes that a graph with these symbols was compiled."""
    _seen.compiled = True
    if _seen.sizes is not None:
        _seen.sizes |= {s["hint"] for s in symbols if s.get("hint", 0) > 1}


def compile_for_ones_too(compiled: Any, explain: bool) -> Any:
    """Wraps `compiled`: its first call also compiles for sizes of one. `compiled` must
    have no graph breaks."""
    if not isinstance(compiled, torch.nn.Module):
        return _first_call(compiled, explain, lambda call: None)
    # Afterwards calls of the module go straight to its own `forward`.
    own = compiled.forward

    def done(call: Call) -> None:
        compiled.forward = call

    compiled.forward = _first_call(own, explain, done)
    return compiled


def _first_call(call: Call, explain: bool, done: Callable[[Call], None]) -> Call:
    first = threading.Lock()
    waiting = True

    @functools.wraps(call)
    def run(*args: Any, **kwargs: Any) -> Any:
        nonlocal waiting
        if not waiting or not first.acquire(blocking=False):
            return call(*args, **kwargs)
        try:
            with _noticing() as sizes:
                result = call(*args, **kwargs)
            waiting = False
            done(call)
            for size in sorted(sizes)[:MOST_SYMBOLS]:
                _compile_for_one(call, size, args, kwargs, explain)
            return result
        finally:
            first.release()

    return run


@contextlib.contextmanager
def _noticing() -> Iterator[set[int]]:
    _seen.sizes = set()
    try:
        yield _seen.sizes
    finally:
        _seen.sizes = None


def _compile_for_one(
    call: Call, size: int, args: Any, kwargs: Any, explain: bool
) -> None:
    """Compiles for arguments in which dimensions of this size have the size one."""
    shrink = functools.partial(_shrink, size)
    try:
        smaller = pytree.tree_map_only(torch.Tensor, shrink, (args, kwargs))
        with compiling_only():
            call(*smaller[0], **smaller[1])
    except Exception as error:  # noqa: BLE001 - the user did not ask for this call
        if explain and not _seen.compiled:
            say(f"no program for one in place of the size {size}: {error}")


def _shrink(size: int, tensor: torch.Tensor) -> torch.Tensor:
    if size not in tensor.shape:
        return tensor
    for dim, has in enumerate(tensor.shape):
        if has == size:
            tensor = tensor.narrow(dim, 0, 1)
    return tensor.clone(memory_format=torch.contiguous_format)


@contextlib.contextmanager
def compiling_only() -> Iterator[None]:
    """Inside the block, calls of compiled code in this thread compile what is missing,
    and then raise an error before anything runs."""
    from torch._dynamo.convert_frame import register_bytecode_hook

    thread = threading.get_ident()

    def refuse_to_run(_old: Any, _new: Any) -> None:
        if threading.get_ident() == thread and not _seen.compiled:
            raise NothingCompiled

    _seen.compiled = False
    # Dynamo walks over its hooks while it compiles.
    with dynamo_lock.held():
        handle = register_bytecode_hook(refuse_to_run)
    _C.compile_only(True)
    try:
        yield
    finally:
        _C.compile_only(False)
        with dynamo_lock.held():
            handle.remove()
