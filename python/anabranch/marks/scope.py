"""Streams marked in the model: scopes, waits and events.

    with anabranch.stream("side"):
        anabranch.wait(weight, mask)   # the stream goes on once mask is there
        y = x @ weight

Under torch.compile these mark the graph and cost nothing; in eager they only
check their arguments. A stream is an order, not a thread: operators of one tag
run in program order, operators of different tags may overlap, and a value that
crosses from one stream to another is always waited for.
docs/design/streams.md says how the compiler keeps that promise.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator

import torch
import torch.fx
from torch.fx.experimental.proxy_tensor import get_proxy_mode
from torch.fx.node import has_side_effect
from torch.fx.traceback import annotate

from .unbroken import unbroken

# The keys of a node's annotations; src/import reads them.
STREAM = "anabranch.stream"
PRIORITY = "anabranch.priority"
CORES = "anabranch.cores"
PASS = "anabranch.pass"

LOWEST_PRIORITY, HIGHEST_PRIORITY = -100, 100

_library = torch.library.Library("anabranch", "DEF")
_library.define("wait(Tensor self, Tensor dependency, bool strict=True) -> ()")
_library.define("record(str? tag=None) -> Tensor")
_library.define("wait_event(Tensor event) -> ()")
_library.define("wait_tag(str tag) -> ()")

# Tags that some graph or eager code of this process has recorded, or will have
# recorded before a later call returns.
_recorded: set[str] = set()


# Other packages' marks in a graph that is exported, made into those of this
# package.
resolvers: list[Callable[[torch.fx.GraphModule], None]] = []


def recorded() -> frozenset[str]:
    return frozenset(_recorded)


def announce(tags: Iterable[str]) -> None:
    """Graphs that are compiled from now on may wait for these tags."""
    _recorded.update(tags)


@torch.library.impl(_library, "wait", "CompositeExplicitAutograd")
def _wait(self: torch.Tensor, dependency: torch.Tensor, strict: bool = True) -> None:
    return None


@torch.library.impl(_library, "record", "CompositeExplicitAutograd")
def _record(tag: str | None = None) -> torch.Tensor:
    if tag is not None:
        _recorded.add(tag)
    return torch.empty(0)


@torch.library.impl(_library, "wait_event", "CompositeExplicitAutograd")
def _wait_event(event: torch.Tensor) -> None:
    return None


@torch.library.impl(_library, "wait_tag", "CompositeExplicitAutograd")
def _wait_tag(tag: str) -> None:
    return None


torch.library.register_fake(
    "anabranch::wait", lambda self, dependency, strict=True: None
)
torch.library.register_fake("anabranch::record", lambda tag=None: torch.empty(0))
torch.library.register_fake("anabranch::wait_event", lambda event: None)
torch.library.register_fake("anabranch::wait_tag", lambda tag: None)
# What nobody reads is dead code, unless it is there for the order.
for _operator in ("wait", "record", "wait_event", "wait_tag"):
    has_side_effect(getattr(torch.ops.anabranch, _operator).default)


def annotated(values: dict[str, object]) -> contextlib.AbstractContextManager[None]:
    """Annotates the nodes that are traced inside. PyTorch keeps annotations in one
    dictionary of the process, so eager calls on other threads leave it alone."""
    if torch.compiler.is_compiling() or get_proxy_mode() is not None:
        return annotate(values)
    return contextlib.nullcontext()


@contextlib.contextmanager
def stream(tag: str, priority: int = 0) -> Iterator[None]:
    """Operators inside run on the stream `tag`, in program order.

    The same tag is the same stream everywhere in a graph; the innermost scope
    decides. Streams of higher `priority` (-100 to 100) get free workers first;
    one tag has one priority. TypeError, ValueError: a tag or a priority that is
    none. torch._dynamo.exc.Unsupported: the graph breaks inside.
    """
    if not isinstance(tag, str):
        raise TypeError(f"stream() needs a string as its tag, got {tag!r}")
    if isinstance(priority, bool) or not isinstance(priority, int):
        raise TypeError(f"the priority of stream {tag!r} must be int: {priority!r}")
    if not LOWEST_PRIORITY <= priority <= HIGHEST_PRIORITY:
        raise ValueError(
            f"the priority of stream {tag!r} must be from {LOWEST_PRIORITY} to"
            f" {HIGHEST_PRIORITY}, got {priority}"
        )
    with (
        unbroken(f"anabranch.stream({tag!r})"),
        annotated({STREAM: tag, PRIORITY: priority}),
    ):
        yield


@contextlib.contextmanager
def limit_cores(n: int) -> Iterator[None]:
    """Each operator inside is computed by at most `n` workers at a time."""
    if isinstance(n, bool) or not isinstance(n, int):
        raise TypeError(f"limit_cores() needs an int, got {n!r}")
    if n < 1:
        raise ValueError(f"limit_cores() needs at least one core, got {n}")
    with unbroken(f"anabranch.limit_cores({n})"), annotated({CORES: n}):
        yield


def wait(tensor: torch.Tensor, dependency: torch.Tensor) -> torch.Tensor:
    """`tensor`, for use after `dependency` has been computed.

    What stands later on the stream of this call begins after the operator that
    makes `dependency` has finished, whether the result is used or not. Users of
    the result on other streams wait as well.
    """
    for name, value in (("tensor", tensor), ("dependency", dependency)):
        if not isinstance(value, torch.Tensor):
            raise TypeError(f"wait(): {name} must be a tensor, got {value!r}")
    if not torch.compiler.is_compiling():
        return tensor
    torch.ops.anabranch.wait(tensor, dependency)
    # A name of its own for the value, so that its users can be told apart.
    with annotated({PASS: True}):
        return torch.ops.aten.alias.default(tensor)


def record(tag: str | None = None) -> torch.Tensor:
    """An event: everything that the current stream has been given so far.

    Hand the result to `wait_event`. With a tag, graphs of the same process may
    also wait for it by name.
    """
    if tag is not None and not isinstance(tag, str):
        raise TypeError(f"record() needs a string as its tag, got {tag!r}")
    return torch.ops.anabranch.record(tag)


def wait_event(event: torch.Tensor | str) -> None:
    """The current stream goes on once `event` has happened.

    `event` is what `record` returned, or the tag that it was given. A tag that
    nobody has recorded is a ValueError, under torch.compile a CompileError.
    """
    if isinstance(event, str):
        if not torch.compiler.is_compiling() and event not in _recorded:
            raise ValueError(f"event {event!r} is waited for but never recorded")
        torch.ops.anabranch.wait_tag(event)
    elif isinstance(event, torch.Tensor):
        torch.ops.anabranch.wait_event(event)
    else:
        raise TypeError(f"wait_event() needs an event or its tag, got {event!r}")
