"""Compiles for sizes of one, after the first call.

Dynamo fixes a size of one, and so may the model ("is this one token?"). A symbolic
program does not cover such a size, so its first call would wait for another
compilation. With `shapes="tiered"` no shape may wait; so a thread compiles for these
sizes after the first call, without running them."""

from __future__ import annotations

import contextlib
import functools
import inspect
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils import _pytree as pytree

from .. import _C, dynamo_lock
from ..report import say
from . import ahead

Call = Callable[..., Any]

MOST_SYMBOLS = 2


class Seen(threading.local):
    """The findings of this thread's compilations: `sizes` of symbols while `_noticing`,
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
    """Wraps `compiled`: its first call also has sizes of one compiled. `compiled` must
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
    """Makes of `call` one that has sizes of one compiled after its first call. Calls
    `done` once these compilations have ended."""
    first = threading.Lock()
    waiting = True
    ahead_of_calls = Compilations()

    @functools.wraps(call)
    def run(*args: Any, **kwargs: Any) -> Any:
        nonlocal waiting
        if not waiting or not first.acquire(blocking=False):
            ahead_of_calls.give_way((args, kwargs))
            if not waiting and not ahead_of_calls.jobs:
                done(call)
            return call(*args, **kwargs)
        try:
            with _noticing() as sizes:
                result = call(*args, **kwargs)
            # Modes of torch functions belong to the thread that entered them, and
            # Dynamo's guards read them.
            if torch._C._len_torch_function_stack():
                sizes.clear()
            for size in sorted(sizes)[:MOST_SYMBOLS]:
                job = ahead.Job(_job(call, size, (args, kwargs), explain))
                ahead_of_calls.jobs[_places(size, (args, kwargs))] = job
                ahead.add(job)
            waiting = False
            return result
        finally:
            first.release()

    return run


# The dimensions of arguments that have the size of a symbol: (argument, dimension).
Places = frozenset[tuple[int, int]]


class Compilations:
    """The jobs for sizes of one that have not ended."""

    def __init__(self) -> None:
        self.jobs: dict[Places, ahead.Job] = {}

    def give_way(self, passed: tuple[Any, Any]) -> None:
        """Keeps a call whose sizes are one from compiling what the thread compiles, and
        the thread from compiling what this call does."""
        if not self.jobs:
            return
        ones = _places(1, passed)
        for places, job in list(self.jobs.items()):
            if places & ones:
                job.drop_or_wait()
            if job.ended.is_set():
                self.jobs.pop(places, None)


def _places(size: int, passed: tuple[Any, Any]) -> Places:
    # Calls pay for this while a job waits, and PyTorch flattens its trees slowly.
    args, kwargs = passed
    is_flat = not kwargs and all(isinstance(x, torch.Tensor) for x in args)
    return frozenset(
        (position, dim)
        for position, leaf in enumerate(args if is_flat else pytree.tree_leaves(passed))
        if isinstance(leaf, torch.Tensor)
        for dim, has in enumerate(leaf.shape)
        if has == size
    )


@contextlib.contextmanager
def _noticing() -> Iterator[set[int]]:
    _seen.sizes = set()
    try:
        yield _seen.sizes
    finally:
        _seen.sizes = None


def _job(
    call: Call, size: int, passed: tuple[Any, Any], explain: bool
) -> Callable[[], None]:
    """Compiles for arguments in which dimensions of this size have the size one, unless
    the compiled model is gone by then."""
    # Calls that follow may write the arguments, so a copy is made at once.
    smaller: Any = None
    with _explaining(size, explain):
        shrink = functools.partial(_shrink, size)
        smaller = pytree.tree_map_only(torch.Tensor, shrink, passed)
    held = weakref.WeakMethod(call) if inspect.ismethod(call) else weakref.ref(call)

    def compile() -> None:
        alive = held()
        if alive is not None and smaller is not None:
            with _explaining(size, explain), compiling_only():
                alive(*smaller[0], **smaller[1])

    return compile


@contextlib.contextmanager
def _explaining(size: int, explain: bool) -> Iterator[None]:
    """Keeps errors from a user who did not ask for these calls. Every call ends with
    one, also if it compiled."""
    _seen.compiled = False
    try:
        yield
    except Exception as error:  # noqa: BLE001
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
