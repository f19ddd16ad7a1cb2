"""torch.npu: the host as a device, whose work is done when a call returns. Each rank of
a host has one.

So streams and events order nothing in eager code; an event with `enable_timing`
measures time. In a compiled function they are streams and events of the graph."""

from __future__ import annotations

import contextlib
import functools
import importlib
import itertools
import time
import types
from collections.abc import Iterator
from typing import Any, Self

import torch
from torch._dynamo import assume_constant_result

from anabranch.extension import is_traced, unbroken_scope

from ..errors import warn_once
from . import memory
from .graphed import make_graphed_callables
from .memory import *
from .names import (
    choose_device,
    chosen_name,
    current_device,
    device_count,
    host_device,
)
from .tape import (
    NPUGraph,
    graph,
    graph_task_group_begin,
    graph_task_group_end,
    graph_task_update_begin,
    graph_task_update_end,
    is_current_stream_capturing,
)

__all__ = [
    "Event",
    "ExternalEvent",
    "NPUGraph",
    "Stream",
    "amp",
    "config",
    "current_device",
    "current_stream",
    "default_stream",
    "device",
    "device_count",
    "empty_cache",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "get_stream_limit",
    "graph",
    "graph_pool_handle",
    "graph_task_group_begin",
    "graph_task_group_end",
    "graph_task_update_begin",
    "graph_task_update_end",
    "init",
    "initial_seed",
    "is_available",
    "is_bf16_supported",
    "is_current_stream_capturing",
    "is_initialized",
    "make_graphed_callables",
    "manual_seed",
    "manual_seed_all",
    "reset_stream_limit",
    "seed",
    "set_compile_mode",
    "set_device",
    "set_stream",
    "set_stream_limit",
    "stream",
    "super_kernel_scope_begin",
    "super_kernel_scope_end",
    "synchronize",
]
__all__ += memory.__all__


_numbers = itertools.count(1)


@assume_constant_result
def _new_name() -> str:
    """A new name for a stream or an event in graphs. A traced function may make one
    too."""
    return str(next(_numbers))


class Event:
    """A point in the order of a stream. In a compiled function `record` and `wait`
    order the operators of the graph. In eager code earlier work is done already."""

    def __init__(self, enable_timing: bool = False, **_: Any) -> None:
        self.enable_timing = enable_timing
        self._name = _new_name()
        self._at: float | None = None

    def record(self, stream: Stream | None = None) -> None:
        if is_traced():
            with _on(stream):
                torch.ops.air.event_record(self._name)
        else:
            self._at = time.perf_counter()

    def wait(self, stream: Stream | None = None) -> None:
        if is_traced():
            with _on(stream):
                torch.ops.air.event_wait(self._name)

    def synchronize(self) -> None:
        """Does nothing: earlier work is done, or will be before its result is read."""

    def query(self) -> bool:
        return True

    def elapsed_time(self, end_event: Event) -> float:
        """Milliseconds from this event to the other. RuntimeError: one of them was not
        recorded in eager code, or has no `enable_timing`."""
        if not (self.enable_timing and end_event.enable_timing):
            raise ValueError("both events need enable_timing=True")
        if self._at is None or end_event._at is None:
            raise RuntimeError(
                "both events must have been recorded; those that a compiled function"
                " records have no time"
            )
        return (end_event._at - self._at) * 1000


class ExternalEvent(Event):
    """An event that a captured graph waits for until its tasks are up to date. A replay
    on this host reads them when it begins, so there is nothing to wait for."""

    def reset(self, stream: Stream | None = None) -> None:
        """Does nothing: no replay waits."""


class Stream:
    """An order of work. In a compiled function the operators on a stream are on a
    stream of the graph. In eager code work is done when a call returns."""

    def __init__(self, device: Any = None, priority: int = 0, **_: Any) -> None:
        self.device = host_device(device)
        self.priority = priority
        self._name = _new_name()
        self._limit: dict[str, int] | None = None
        self._entered: list[Any] = []

    def __enter__(self) -> Self:
        """As `with torch.npu.stream(self)`."""
        self._entered.append(stream(self))
        self._entered[-1].__enter__()
        return self

    def __exit__(self, *raised: object) -> None:
        self._entered.pop().__exit__(*raised)

    @property
    def stream_id(self) -> int:
        return int(self._name or 0)

    def synchronize(self) -> None:
        """Does nothing: its work is done, or will be before its result is read."""

    def query(self) -> bool:
        return True

    def wait_stream(self, stream: Stream) -> None:
        """Makes later work of this stream begin after the current work of the other."""
        event = Event()
        event.record(stream)
        event.wait(self)

    def wait_event(self, event: Event) -> None:
        event.wait(self)

    def record_event(self, event: Event | None = None) -> Event:
        event = event or Event()
        event.record(self)
        return event


_pools = itertools.count(1)
_default = Stream()
_default._name = ""  # the stream of operators outside all scopes
_current = _default


def is_available() -> bool:
    return True


def graph_pool_handle() -> tuple[int, int]:
    """A handle for `use_custom_pool`. Nothing is captured on this host, so it has no
    memory."""
    return (0, next(_pools))


def set_device(device: Any) -> None:
    """Gives this process the device of its rank. All are the host's device."""
    choose_device(device)


def get_device_name(device: Any = None) -> str:
    """The name of an NPU: ANABRANCH_NPU_NAME, or Ascend910_9391. Nothing else follows from
    it: operators compute the same."""
    host_device(device)
    return chosen_name()


def synchronize(device: Any = None) -> None:
    host_device(device)


class device:
    """`with torch.npu.device(0):` checks that there is this device."""

    def __init__(self, device: Any) -> None:
        host_device(device)

    def __enter__(self) -> None:
        """Does nothing: all devices are the host's."""

    def __exit__(self, *_: object) -> None:
        """Does nothing: all devices are the host's."""


def get_device_properties(device: Any = None) -> types.SimpleNamespace:
    """The NPU's name and the host's bytes of memory."""
    return types.SimpleNamespace(
        name=get_device_name(device), total_memory=memory.mem_get_info()[1]
    )


def get_device_capability(device: Any = None) -> None:
    """None, as on an NPU."""
    host_device(device)


def init() -> None:
    """Does nothing: nothing needs to be started."""


def is_initialized() -> bool:
    return True


def is_bf16_supported() -> bool:
    return True


class _Config:
    """Options of an NPU's runtime. They can be set, and change nothing."""

    allow_internal_format = True

    def __setattr__(self, name: str, value: Any) -> None:
        warn_once(f"torch.npu.config.{name} has no effect on this host")
        object.__setattr__(self, name, value)


config = _Config()
amp = types.SimpleNamespace(autocast=functools.partial(torch.autocast, "npu"))


def set_compile_mode(jit_compile: bool = False) -> None:
    warn_once("torch.npu.set_compile_mode has no effect on this host")


def super_kernel_scope_begin(scope_name: str) -> None:
    """Begins a super kernel of a captured graph, up to super_kernel_scope_end with the
    same name. It has no effect on this host, but begin and end must pair in a graph."""
    if is_traced():
        torch.ops.air.super_kernel_begin(scope_name)


def super_kernel_scope_end(scope_name: str) -> None:
    if is_traced():
        torch.ops.air.super_kernel_end(scope_name)


def seed() -> None:
    torch.default_generator.seed()


def initial_seed() -> int:
    return torch.initial_seed()


def empty_cache() -> None:
    """Does nothing: the host's allocator keeps no memory back."""


def manual_seed(seed: int) -> None:
    """Seeds the host's generator. torch.manual_seed would ask torch.cuda for its own,
    which may be this function (transfer_to_npu)."""
    torch.default_generator.manual_seed(seed)


def manual_seed_all(seed: int) -> None:
    manual_seed(seed)


def default_stream(device: Any = None) -> Stream:
    host_device(device)
    return _default


def current_stream(device: Any = None) -> Stream:
    host_device(device)
    return _current


def set_stream(stream: Stream | None) -> None:
    """Makes later operators of a compiled function, or of the scope around the call,
    run on the stream."""
    if stream is None:
        return
    if is_traced():
        torch.ops.air.stream_set(stream._name)
    _make_current(stream)


def _make_current(stream: Stream) -> None:
    global _current
    _current = stream


@contextlib.contextmanager
def stream(stream: Stream | None) -> Iterator[None]:
    """Runs the operators inside the block on the stream. A graph break inside is an
    error."""
    if stream is None:
        yield
        return
    before = _current
    _make_current(stream)
    try:
        with unbroken_scope("torch.npu.stream(...)"), _on(stream):
            yield
    finally:
        _make_current(before)


@contextlib.contextmanager
def _on(stream: Stream | None) -> Iterator[None]:
    """Puts a graph's operators inside the block on the stream; None: on the current
    one."""
    if stream is None or not is_traced():
        yield
        return
    torch.ops.air.scope_enter(["_npu_stream"], [stream._name])
    try:
        yield
    finally:
        torch.ops.air.scope_exit()


def get_stream_limit(stream: Stream) -> dict[str, int]:
    if stream._limit is None:
        threads = torch.get_num_threads()
        return {"cube_core_num": threads, "vector_core_num": threads}
    return dict(stream._limit)


def set_stream_limit(stream: Stream, cube_num: int = -1, vector_num: int = -1) -> None:
    """Stores the limit for get_stream_limit. It limits nothing."""
    limit = get_stream_limit(stream)
    if cube_num != -1:
        limit["cube_core_num"] = cube_num
    if vector_num != -1:
        limit["vector_core_num"] = vector_num
    stream._limit = limit


def reset_stream_limit(stream: Stream) -> None:
    stream._limit = None


def __getattr__(name: str) -> Any:
    """Finds torch.npu.npugraph_ex, which imports this module."""
    if name == "npugraph_ex":
        return importlib.import_module(name)
    raise AttributeError(f"module 'torch.npu' has no attribute {name!r}")
