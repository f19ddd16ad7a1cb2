"""What a trace has read, and whether it is the same still.

Dynamo reads a value while it traces, and builds the guard on it when the trace has
ended: the guard takes the value that is there by then. In a call nothing changes in
between. In a thread beside calls it may: then the guard stands for another value than
the trace saw."""

from __future__ import annotations

import contextlib
import functools
import operator
import threading
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import torch
from torch._dynamo.guards import _get_closure_vars
from torch._dynamo.variables.builder import VariableBuilder
from torch._guards import Guard, GuardsSet, Source

from .reads import named_part

# In the place of a value that cannot be read.
_MISSING = object()
# A bound method, and the dict of a class, are new objects each time that they are read.
_PARTS_OF_VIEWS: dict[type, tuple[str, ...]] = {
    types.MethodType: ("__self__", "__func__"),
    types.BuiltinMethodType: ("__self__", "__name__"),
    types.MethodWrapperType: ("__self__", "__name__"),
    types.MappingProxyType: (),
}


class Seen:
    """The values that the trace of one frame reads, by their sources. Each is kept with
    what may change of it while it stays the same object."""

    def __init__(self, locals_: Mapping[str, Any], globals_: dict[str, Any]) -> None:
        self._scope = {"L": locals_, "G": globals_}
        self._functions: dict[str, Any] = dict(_get_closure_vars())
        self._values: dict[Source, tuple[Any, Any]] = {}
        self._names: dict[tuple[Source, str, str], bool] = {}
        self._changed = False

    def note(self, source: Source, value: Any) -> None:
        """Notes a value that Dynamo has just read. It may read the same source again."""
        old = self._values.setdefault(source, (value, _inside(value)))
        self._changed = self._changed or not _is_same(old, value)

    def note_guard(self, guard: Guard, _guards: GuardsSet | None = None) -> None:
        """Notes what a guard stands for that Dynamo has just asked for."""
        source = guard.originating_source
        if not _name(source):
            return  # the guard reads no variable
        if source not in self._values:
            self.note(source, self._read(source))
        if (part := named_part(guard)) is not None:
            kind, key = part
            self._names.setdefault((source, kind, key), self._has(source, kind, key))

    def is_still_there(self) -> bool:
        """Whether every source has the value that the trace has seen."""
        return (
            not self._changed
            and all(
                _is_same(old, self._read(source))
                for source, old in self._values.items()
            )
            and all(
                has == self._has(source, kind, key)
                for (source, kind, key), has in self._names.items()
            )
        )

    def _read(self, source: Source) -> Any:
        try:
            return source.get_value(self._scope, self._functions, {})
        except Exception:  # noqa: BLE001 - the user's code may raise any
            return _MISSING

    def _has(self, source: Source, kind: str, key: str) -> bool:
        value = self._read(source)
        try:
            if kind.startswith("DICT"):
                return key in value
            if kind == "HASATTR":
                return hasattr(value, key)
            return key in vars(value)
        except Exception:  # noqa: BLE001
            return False


def _name(source: Source) -> str:
    name: Any = source.name
    return name() if callable(name) else name


def _inside(value: Any) -> Any:
    """What may change of a value that stays the same object."""
    if isinstance(value, torch.Tensor):
        return _properties(value)
    if isinstance(value, (dict, types.MappingProxyType)):
        return tuple(value)
    if isinstance(value, (list, set, frozenset)):
        return _Objects(value)
    return None


class _Objects:
    """The objects in a container; equal to the same objects."""

    def __init__(self, container: Iterable[Any]) -> None:
        self._objects = tuple(container)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, _Objects)
            and len(self._objects) == len(other._objects)
            and all(map(operator.is_, self._objects, other._objects))
        )


def _properties(tensor: torch.Tensor) -> tuple[Any, ...]:
    strides = tensor.stride() if tensor.layout is torch.strided else ()
    return (
        *(tensor.dtype, tensor.device, tensor.requires_grad, tensor.layout),
        *(tuple(tensor.shape), strides),
    )


def _is_same(old: tuple[Any, Any], value: Any) -> bool:
    before, inside = old
    return _is_one(before, value) and _are_equal(inside, _inside(value))


def _are_equal(first: Any, second: Any) -> bool:
    try:
        return bool(first == second)
    except Exception:  # noqa: BLE001
        return False


def _is_one(first: Any, second: Any) -> bool:
    """Whether two values are one object, or constants that no guard tells apart."""
    if first is second:
        return True
    kind = type(first)
    if kind is not type(second):
        return False
    if kind in (int, bool, str, bytes, float, complex):
        return repr(first) == repr(second)
    if kind in (tuple, torch.Size):
        return len(first) == len(second) and all(map(_is_one, first, second))
    if kind is dict:  # a source may copy the dict of a class
        return first.keys() == second.keys() and all(
            first[key] is second[key] for key in first
        )
    parts = _PARTS_OF_VIEWS.get(kind)
    return parts is not None and all(
        _is_one(getattr(first, part), getattr(second, part)) for part in parts
    )


class _Thread(threading.local):
    seen: Seen | None = None


_thread = _Thread()


@contextlib.contextmanager
def noting(seen: Seen) -> Iterator[None]:
    """Has `seen` note what Dynamo reads in this thread."""
    _listen()
    _thread.seen = seen
    try:
        yield
    finally:
        _thread.seen = None


@functools.cache
def _listen() -> None:
    _before(VariableBuilder, "__call__", _note_value)
    _before(GuardsSet, "add", Seen.note_guard)


def _note_value(seen: Seen, value: Any, builder: VariableBuilder) -> None:
    seen.note(builder.source, value)


def _before(owner: type, name: str, note: Callable[..., None]) -> None:
    """Has calls of a method first note their argument, where the thread notes any."""
    method = getattr(owner, name)

    @functools.wraps(method)
    def call(self: Any, argument: Any, *args: Any, **kwargs: Any) -> Any:
        if (seen := _thread.seen) is not None:
            note(seen, argument, self)
        return method(self, argument, *args, **kwargs)

    setattr(owner, name, call)
