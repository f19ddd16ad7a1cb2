"""What guards of Dynamo's read, and which of it CPython counts the changes of."""

from __future__ import annotations

import dataclasses
import functools
import types
from typing import Any

import torch
from torch._dynamo.source import is_from_unspecialized_builtin_nn_module_source
from torch._guards import Guard

from .sources import Way, way_of
from .walk import Unknown, Walk

# Guards that compare which object is at the end of a way.
_IDENTITIES = (
    *("ID_MATCH", "CONSTANT_MATCH", "BOOL_MATCH", "NONE_MATCH", "NOT_NONE_MATCH"),
    *("BUILTIN_MATCH", "CLASS_MATCH", "MODULE_MATCH", "FUNCTION_MATCH"),
)
_LENGTHS = ("SEQUENCE_LENGTH", "DICT_KEYS_MATCH", "MAPPING_KEYS_CHECK")
_DICT_KEYS = ("DICT_CONTAINS", "DICT_NOT_CONTAINS")
_NAMES = (*_DICT_KEYS, "NOT_PRESENT_IN_GENERIC_DICT", "HASATTR")
# Values that never change.
_CONSTANTS = (int, float, complex, str, bytes, bool, type(None), torch.dtype)


@dataclasses.dataclass(frozen=True)
class Read:
    """What one guard reads: ways, and what it compares at their ends.

    kind  the name of the guard's function
    ways  two of a guard that compares whether two values are one object
    key   of a dict or an attribute; of a tensor, the classes of tensors that the guard
          compares alone
    """

    kind: str
    ways: tuple[Way, ...]
    key: Any = None

    def note(self, walk: Walk) -> None:
        """Notes what the guard depends on. Unknown: it must be asked at each call."""
        for value in [walk.value(way) for way in self.ways]:
            self._note(walk, value)

    def _note(self, walk: Walk, value: Any) -> None:
        if self.kind in _LENGTHS:
            walk.kind(value)
            walk.whole(value)
        elif self.kind in _DICT_KEYS:
            walk.contains(value, self.key)
        elif self.kind == "NOT_PRESENT_IN_GENERIC_DICT":
            walk.lacks(value, self.key)
        elif self.kind == "HASATTR":
            walk.has(value, self.key)
        elif self.kind == "TENSOR_MATCH" and type(value) in self.key:
            walk.tensor(value)
        elif self.kind == "TYPE_MATCH":
            walk.kind(value)
        elif self.kind == "CLOSURE_MATCH" and type(value) is types.FunctionType:
            walk.code(value)
        elif self.kind == "TENSOR_MATCH" or (
            self.kind == "EQUALS_MATCH" and not _is_constant(value)
        ):
            raise Unknown


def read_of(guard: Guard) -> Read | None:
    """What the guard reads; None: it must be asked at each call."""
    kind = guard.create_fn_name()
    way = way_of(guard.originating_source)
    if way is None or (way.is_local and not way.steps):
        return None
    if kind == "TENSOR_MATCH":
        return Read(kind, (way,), _compared_alone(guard.originating_source))
    if kind in (*_IDENTITIES, *_LENGTHS, "TYPE_MATCH", "EQUALS_MATCH", "CLOSURE_MATCH"):
        return Read(kind, (way,))
    if kind not in (*_NAMES, "DUPLICATE_INPUT"):
        return None
    argument = _argument(guard)
    if kind in _NAMES:
        return Read(kind, (way,), argument) if isinstance(argument, str) else None
    other = way_of(argument)
    return Read(kind, (way, other)) if other else None


def named_part(guard: Guard) -> tuple[str, str] | None:
    """The kind of a guard that looks whether a value has a name, and the name. None: the
    guard is of another kind."""
    kind = guard.create_fn_name()
    name = _argument(guard) if kind in _NAMES else None
    return (kind, name) if isinstance(name, str) else None


def _compared_alone(source: Any) -> tuple[type, ...]:
    """The classes of tensors that a guard compares alone. Of others, Dynamo compares
    which share memory, too."""
    if not torch._dynamo.config.skip_no_tensor_aliasing_guards_on_parameters:
        return ()
    if is_from_unspecialized_builtin_nn_module_source(source):
        return (torch.nn.Parameter, torch.Tensor)
    return (torch.nn.Parameter,)


def _argument(guard: Guard) -> Any:
    """The one argument that the guard's function takes besides the guard, or None."""
    create = guard.create_fn
    if not isinstance(create, functools.partial):
        return None
    found = [*create.args, *create.keywords.values()]
    return found[0] if len(found) == 1 else None


def _is_constant(value: Any) -> bool:
    if type(value) in (tuple, torch.Size):
        return all(map(_is_constant, value))
    return type(value) in _CONSTANTS
