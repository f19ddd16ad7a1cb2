"""Streams marked in the model: scopes, waits and events.

    with anabranch.stream("side"):
        anabranch.wait(weight, mask)   # the stream goes on once mask is there
        y = x @ weight

Under torch.compile the scopes mark the graph and cost nothing; in eager code they only
check their arguments. A stream is an order, not a thread. Operators of one tag run in
program order; operators of different tags may overlap. An operator always waits for the
values that it reads from another stream. docs/design/streams.md says how the compiler
keeps this promise."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator

import torch
import torch.fx
from torch._guards import TracingContext, active_fake_mode
from torch._ops import OpOverload
from torch.fx.experimental.proxy_tensor import get_proxy_mode
from torch.fx.node import has_side_effect
from torch.fx.traceback import annotate

from .unbroken import unbroken

# Keys of a node's annotations, which src/import reads.
STREAM = "anabranch.stream"
PRIORITY = "anabranch.priority"
CORES = "anabranch.cores"
PASS = "anabranch.pass"

LOWEST_PRIORITY, HIGHEST_PRIORITY = -100, 100

# Tags that a graph or eager code of this process has recorded, or will have recorded
# before a later call returns.
_recorded: set[str] = set()


# Functions that turn marks of front ends into marks of this package, in a graph that is
# exported.
resolvers: list[Callable[[torch.fx.GraphModule], None]] = []


def recorded() -> frozenset[str]:
    return frozenset(_recorded)


def announce(tags: Iterable[str]) -> None:
    """Graphs that are compiled from now on may wait for these tags."""
    _recorded.update(tags)


_library = torch.library.Library("anabranch", "DEF")


def _nothing(*_args: object, **_kwargs: object) -> None:
    return None


def _event(*_args: object, **_kwargs: object) -> torch.Tensor:
    return torch.empty(0)


def _record(tag: str | None = None) -> torch.Tensor:
    if tag is not None:
        _recorded.add(tag)
    return torch.empty(0)


def _define(
    schema: str, run: Callable[..., object], fake: Callable[..., object]
) -> OpOverload:
    """Defines an operator whose only effect is the order of others. PyTorch removes an
    operator whose result has no reader, unless the operator is known to have an effect."""
    name = schema.partition("(")[0]
    _library.define(schema)
    _library.impl(name, run, "CompositeExplicitAutograd")
    torch.library.register_fake(f"anabranch::{name}", fake, lib=_library)
    operator: OpOverload = getattr(torch.ops.anabranch, name).default
    has_side_effect(operator)
    return operator


WAIT = _define(
    "wait(Tensor self, Tensor dependency, bool strict=True) -> ()", _nothing, _nothing
)
RECORD = _define("record(str? tag=None) -> Tensor", _record, _event)
WAIT_EVENT = _define("wait_event(Tensor event) -> ()", _nothing, _nothing)
WAIT_TAG = _define("wait_tag(str tag) -> ()", _nothing, _nothing)
ORDER = frozenset((WAIT, RECORD, WAIT_EVENT, WAIT_TAG))


def is_traced() -> bool:
    """Whether this code is traced or belongs to a compilation of this thread.
    `torch.compiler.is_compiling()` is true in all threads while one of them compiles,
    so eager calls of the others would take part in that trace."""
    return (
        torch.compiler.is_dynamo_compiling()
        or get_proxy_mode() is not None
        or TracingContext.try_get() is not None
        or active_fake_mode() is not None
    )


def annotated(values: dict[str, object]) -> contextlib.AbstractContextManager[None]:
    """Annotates the nodes that are traced inside the block. PyTorch keeps annotations
    in one dictionary of the process, so calls in eager mode leave it alone: another
    thread may be tracing."""
    if is_traced():
        return annotate(values)
    return contextlib.nullcontext()


@contextlib.contextmanager
def stream(tag: str, priority: int = 0) -> Iterator[None]:
    """Operators inside the block run on the stream `tag`, in program order.

    tag       a string; the same tag is the same stream everywhere in a graph, and the
              innermost scope decides
    priority  from -100 to 100; streams of higher priority get free workers first. One
              tag has one priority

    TypeError, ValueError: a wrong tag or priority. torch._dynamo.exc.Unsupported: the
    graph breaks inside the block.
    """
    if not isinstance(tag, str):
        raise TypeError(f"stream() needs a string as its tag, got {tag!r}")
    if isinstance(priority, bool) or not isinstance(priority, int):
        raise TypeError(
            f"the priority of stream {tag!r} must be an int, got {priority!r}"
        )
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
    """At most `n` workers at a time compute each operator inside the block. `n` is a
    positive int. TypeError, ValueError: it is not. torch._dynamo.exc.Unsupported: the
    graph breaks inside the block."""
    if isinstance(n, bool) or not isinstance(n, int):
        raise TypeError(f"limit_cores() needs an int, got {n!r}")
    if n < 1:
        raise ValueError(f"limit_cores() needs at least one core, got {n}")
    with unbroken(f"anabranch.limit_cores({n})"), annotated({CORES: n}):
        yield


def wait(tensor: torch.Tensor, dependency: torch.Tensor) -> torch.Tensor:
    """Returns `tensor`, for use after `dependency` has been computed.

    Operators that come later on the current stream begin after the operator that makes
    `dependency` has ended, whether they use the result or not. Users of the result on
    other streams wait as well. TypeError: an argument is no tensor. CompileError: the
    graph does not compute `dependency`.
    """
    for name, value in (("tensor", tensor), ("dependency", dependency)):
        if not isinstance(value, torch.Tensor):
            raise TypeError(f"wait(): {name} must be a tensor, got {value!r}")
    if not is_traced():
        return tensor
    torch.ops.anabranch.wait(tensor, dependency)
    # A name of its own for the value, so that its users can be told apart.
    with annotated({PASS: True}):
        return torch.ops.aten.alias.default(tensor)


def record(tag: str | None = None) -> torch.Tensor:
    """Records an event: it happens when all operators that the current stream has so
    far have ended.

    Returns the event, for `wait_event`. With a `tag`, a string, other graphs of the
    process can wait for it by this name. TypeError: the tag is no string.
    """
    if tag is not None and not isinstance(tag, str):
        raise TypeError(f"record() needs a string as its tag, got {tag!r}")
    return torch.ops.anabranch.record(tag)


def wait_event(event: torch.Tensor | str) -> None:
    """Makes later operators of the current stream wait for `event`.

    `event` is the result of `record`, or the tag of one. TypeError: it is neither. A
    tag that was never recorded is a ValueError in eager code, and a CompileError under
    torch.compile.
    """
    if isinstance(event, str):
        if not is_traced() and event not in _recorded:
            raise ValueError(
                f"event {event!r} is waited for but never recorded:"
                f" record({event!r}) must come before the wait"
            )
        torch.ops.anabranch.wait_tag(event)
    elif isinstance(event, torch.Tensor):
        torch.ops.anabranch.wait_event(event)
    else:
        raise TypeError(f"wait_event() needs an event or its tag, got {event!r}")
