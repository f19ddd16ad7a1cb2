"""What the values of guards depend on, noted on the way from variables to the values."""

from __future__ import annotations

import types
from collections.abc import Mapping
from typing import Any

import torch
from torch._C._dynamo.guards import TensorGuards

from .. import _C
from ..attributes import ABSENT, PLAIN_READERS, is_hidden, of_class
from .sources import Step, Way

# Where a module finds what its own dict has not, in this order.
_MODULE_DICTS = ("_parameters", "_buffers", "_modules")
_HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE: the class of its objects may be assigned


class Unknown(Exception):
    """A value depends on something whose changes CPython does not count."""


class Walk:
    """Notes in `state` what ways depend on. All ways of one walk share what is noted.

    `locals_` and `globals_` are those of the frame. Unknown: a guard behind this way
    must be asked at each call; what was noted of it costs a comparison, no more."""

    def __init__(self, locals_: Mapping[str, Any], globals_: dict[str, Any]) -> None:
        self.state = _C.GuardedState()
        self._locals = locals_
        self._globals = globals_
        self._roots: set[str] = set()
        # What was noted, by the address of the object. The values keep objects alive
        # until the walk ends, so that no address is used twice.
        self._objects: dict[int, tuple[Any, int]] = {}
        self._dicts: dict[int, tuple[Any, int]] = {}
        self._types: set[type] = set()
        self._functions: dict[int, Any] = {}
        self._items: set[tuple[int, str]] = set()
        self._tensors: dict[int, torch.Tensor] = {}
        # Values that a class holds. Classes are compared after objects, so what these
        # hold can't be read before.
        self._of_classes: dict[int, Any] = {}
        self._late_dicts: dict[int, Any] = {}

    def value(self, way: Way) -> Any:
        """The value at the end of a way."""
        value = self._root(way)
        for step, key in way.steps:
            if step is Step.ATTRIBUTE:
                value = _there(self._attribute(value, key))
            elif step is Step.ITEM:
                value = _there(self._item(value, key))
            elif step is Step.TYPE:
                self.kind(value)
                value = type(value)
                self._type(value)
            elif not isinstance(value, type):
                raise Unknown
            else:
                self._type(value)
                value = value.__mro__ if step is Step.BASES else value.__dict__
        return value

    def kind(self, value: Any) -> None:
        """Notes the class of a value."""
        if type(value).__flags__ & _HEAP_TYPE and not isinstance(value, type):
            self._object(value)

    def has(self, value: Any, name: str) -> None:
        """Notes whether the object has an attribute of this name."""
        if self._attribute(value, name) is ABSENT:
            reader = getattr(type(value), "__getattr__", None)
            if reader not in (None, torch.nn.Module.__getattr__):
                raise Unknown

    def lacks(self, value: Any, name: str) -> None:
        """Notes that the object's own dict has no such name."""
        if name in self._own(value):
            raise Unknown
        self._note(self._object(value), name, ABSENT)

    def contains(self, value: Any, key: Any) -> None:
        """Notes whether a dict has the key."""
        if isinstance(value, types.MappingProxyType):
            return  # of a class, which is noted
        self._item(value, key)

    def whole(self, value: Any) -> None:
        """Notes all keys and the length of a container."""
        if _is_dict(value) and id(value) in self._of_classes:
            self._late_dict(value)
        elif _is_dict(value):
            self.state.add_whole(self._dict(value))
        elif type(value) is not tuple:
            raise Unknown

    def code(self, value: Any) -> None:
        """Notes the code of a function."""
        if id(value) not in self._functions:
            self._functions[id(value)] = value
            self.state.add_function(value)

    def tensor(self, value: Any) -> None:
        """Notes a tensor, whose properties are compared at each call."""
        self._tensors[id(value)] = value

    def finish(self) -> _C.GuardedState:
        """What was noted, if no more is."""
        if tensors := list(self._tensors.values()):
            check = TensorGuards(
                *tensors,
                dynamic_dims_sizes=[list(tensor.shape) for tensor in tensors],
                dynamic_dims_strides=[list(tensor.stride()) for tensor in tensors],
            )
            self.state.add_tensors(tensors, check.check)
        return self.state

    def _root(self, way: Way) -> Any:
        if not way.is_local:
            return _there(self._item(self._globals, way.name))
        value = self._locals.get(way.name)
        if not isinstance(value, torch.nn.Module):
            raise Unknown  # each call may bring another object
        if way.name not in self._roots:
            self._roots.add(way.name)
            self.state.add_root(way.name, value)
        return value

    def _attribute(self, value: Any, name: str) -> Any:
        """The value of an attribute, or ABSENT."""
        kind = type(value)
        if isinstance(value, type) or kind.__getattribute__ not in PLAIN_READERS:
            raise Unknown
        own = self._own(value)
        if name == "__dict__":
            self._object(value)
            return own
        if is_hidden(kind, name):
            raise Unknown  # by a property, or a slot
        self._note(self._object(value), name, own.get(name, ABSENT))
        self._type(kind)
        if name in own:
            return own[name]
        found = of_class(kind, name)
        if found is not ABSENT:
            if hasattr(type(found), "__get__"):
                raise Unknown
            return self._held_by_class(found)
        if isinstance(value, torch.nn.Module):
            return self._of_module(value, own, name)
        return ABSENT

    def _of_module(self, value: Any, own: dict[str, Any], name: str) -> Any:
        if type(value).__getattr__ is not torch.nn.Module.__getattr__:
            raise Unknown
        for holder in _MODULE_DICTS:
            self._note(self._object(value), holder, own.get(holder, ABSENT))
            if holder in own:
                found = self._item(own[holder], name)
                if found is not ABSENT:
                    return found
        return ABSENT

    def _item(self, value: Any, key: Any) -> Any:
        """The item of a dict or a tuple, or ABSENT."""
        if isinstance(value, types.MappingProxyType):
            return self._held_by_class(value.get(key, ABSENT))
        if type(value) is tuple and type(key) is int:
            return value[key]
        if not _is_dict(value) or type(key) is not str:
            raise Unknown
        found = value.get(key, ABSENT)
        if id(value) in self._of_classes and id(value) not in self._dicts:
            self._late_dict(value)
            return self._held_by_class(found)
        self._note(self._dict(value), key, found)
        return found

    def _held_by_class(self, value: Any) -> Any:
        self._of_classes[id(value)] = value
        return value

    def _own(self, value: Any) -> dict[str, Any]:
        own = getattr(value, "__dict__", None)
        if type(own) is not dict:
            raise Unknown
        return own

    def _object(self, value: Any) -> int:
        """Notes an object's class and its dict; the number of the dict."""
        if id(value) not in self._objects:
            if id(value) in self._of_classes:
                raise Unknown
            self._own(value)
            own = self.state.add_object(value)
            if own is None:
                raise Unknown
            self._objects[id(value)] = (value, self._dict(own))
        return self._objects[id(value)][1]

    def _dict(self, value: dict[Any, Any]) -> int:
        if id(value) not in self._dicts:
            if id(value) in self._of_classes:
                raise Unknown
            self._dicts[id(value)] = (value, self.state.add_dict(value))
        return self._dicts[id(value)][1]

    def _late_dict(self, value: dict[Any, Any]) -> None:
        if id(value) not in self._late_dicts:
            self._late_dicts[id(value)] = value
            self.state.add_late_dict(value)

    def _type(self, kind: type) -> None:
        if kind not in self._types:
            getattr(kind, "_", None)  # CPython numbers a class when one looks into it
            if not self.state.add_type(kind):
                raise Unknown
            self._types.add(kind)

    def _note(self, number: int, key: str, value: Any) -> None:
        if (number, key) in self._items:
            return
        if value is ABSENT:
            self.state.add_absence(number, key)
        elif not self.state.add_item(number, key, value):
            raise Unknown  # a list, for one
        self._items.add((number, key))
        if _is_dict(value):
            self._dict(value)


def _there(found: Any) -> Any:
    if found is ABSENT:
        raise Unknown
    return found


def _is_dict(value: Any) -> bool:
    """Whether the value is a dict that is read as dicts are."""
    return isinstance(value, dict) and _reader(type(value)) is dict.__getitem__


def _reader(kind: Any) -> Any:
    return kind.__getitem__
