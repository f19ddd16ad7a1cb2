"""Tells _C.GraphCall where a recorded method's calls find values in the module:
parameters to fetch, and values to compare with those of the trace."""

from __future__ import annotations

import collections
import dataclasses
import inspect
import types
from collections.abc import Callable
from typing import Any

from ... import _C
from ..._C import Compared, Within
from ...attributes import PLAIN_READERS, is_hidden
from ..recording import Stale
from ..source import MISSING, READERS, Path, Place, Source, look_up

# The property of a value that a call compares.
_COMPARED = {
    "": Compared.Item,
    "len": Compared.Length,
    "tuple": Compared.Keys,
}
# Readers of containers, and the containers that have no code of the user's.
COUNTED = ("len", "tuple")
PLAIN = (list, tuple, dict, collections.OrderedDict)
SLOTS = ("__code__", "__defaults__", "__kwdefaults__", "__closure__")
# Kinds of objects that may be compared by identity. A reference to another object might
# keep the module alive.
LASTING = (type, types.BuiltinFunctionType, types.ModuleType)


def _step(holder: Any, is_attribute: bool, key: str | int) -> tuple[Within, Any]:
    """One step towards a value without running the user's code: how the holder keeps
    the next value, and the value. MISSING: there is none."""
    if not is_attribute:
        if isinstance(holder, dict) and isinstance(key, str) and key in holder:
            return Within.Dict, holder[key]
        length = len(holder) if type(holder) in (list, tuple) else 0
        if isinstance(key, int) and 0 <= key < length:
            return Within.Sequence, holder[key]
        return Within.Dict, MISSING
    assert isinstance(key, str)
    if isinstance(holder, types.FunctionType) and key in SLOTS:
        return Within.Function, getattr(holder, key)
    if isinstance(holder, types.CellType) and key == "cell_contents":
        try:
            return Within.Cell, holder.cell_contents
        except ValueError:
            return Within.Cell, MISSING
    own = getattr(holder, "__dict__", None)
    if isinstance(own, dict) and key in own and not is_hidden(type(holder), key):
        return Within.Attributes, own[key]
    return Within.Class, inspect.getattr_static(type(holder), key, MISSING)


@dataclasses.dataclass(slots=True, eq=False)
class _Spot:
    """A value on the way from a root. All paths through it share one spot."""

    parent: _Spot | None
    name: str | int
    kind: Within  # how the parent keeps it
    value: Any
    place: tuple[int, str | int] | None = None
    is_read: bool = True  # an expression reads this value, and no code of the user's
    children: dict[tuple[bool, str | int], _Spot] = dataclasses.field(
        default_factory=dict
    )

    def child(self, is_attribute: bool, name: str | int) -> _Spot:
        found = self.children.get((is_attribute, name))
        if found is None:
            kind, value = _step(self.value, is_attribute, name)
            if self.value is MISSING:
                value = MISSING
            is_read = self.is_read and kind != Within.Class and value is not MISSING
            if is_attribute:  # the class may have code of its own that reads it
                is_read &= type(self.value).__getattribute__ in PLAIN_READERS
            found = _Spot(self, name, kind, value, is_read=is_read)
            self.children[is_attribute, name] = found
        return found


class ModuleTable:
    """The containers of one module, its method and its globals, in the form that
    _C.GraphCall takes."""

    def __init__(self, module: Any, function: Any) -> None:
        self.roots = {"L": module, "G": function.__globals__, "F": function}
        self.containers: list[tuple[int, str | int, Within, Any]] = []
        self.values: list[tuple[int, str | int, int]] = []
        self.constants: list[tuple[int, str | int, Compared, tuple[Any, ...], str]] = []
        self._numbers: dict[Any, int] = {}
        self._spots = {
            name: _Spot(None, name, Within.Dict, value, (-1, name))
            for name, value in self.roots.items()
        }

    def fetch(self, argument: int, path: Path) -> None:
        """Says where the argument with this number is."""
        if look_up(self.roots["L"], path) is MISSING:
            raise Stale(f"the module has no {path}")
        self.values.append((*self._place("L", path), argument))

    def read(self, source: Source) -> Any:
        """The value of a source. MISSING: only the user's code can read it."""
        place = source.place
        if place is None or not place.path:
            return MISSING
        if place.asks == "absent":
            *holder, (_, name) = place.path
            spot = self._spot(place.root, holder)
            own = getattr(spot.value, "__dict__", None)
            if not spot.is_read or not isinstance(own, dict):
                return MISSING
            return name not in own
        spot = self._spot(place.root, place.path)
        if not spot.is_read or (
            place.asks in COUNTED and type(spot.value) not in PLAIN
        ):
            return MISSING
        return READERS[place.asks](spot.value) if place.asks else spot.value

    def compare(self, source: Source, value: Any) -> bool:
        """Makes calls compare the source with this value. Returns False if the value is
        in no dict, list or closure; then this class cannot compare it."""
        if source.place is None or not source.place.path:
            return False
        place = source.place
        root, path, asks = place.root, place.path, place.asks
        if asks == "absent":
            return value and self._compare_absence(root, path, source.text)
        if asks == "type":
            return self._compare_type(source.text, self._spot(root, path), value)
        there = self._walk(root, path)
        if asks:
            kind = Within.Dict if isinstance(there, dict) else Within.Sequence
            if kind == Within.Sequence and type(there) not in (list, tuple):
                return False
            if kind == Within.Sequence and asks == "tuple":
                return False
            number, key = self._place(root, path)
            number, key = self._container(number, key, kind), ""
        elif there is value:
            number, key = self._place(root, path)
        else:
            return False
        self.constants.append((number, key, _COMPARED[asks], (value,), source.text))
        return True

    def _compare_type(self, text: str, spot: _Spot, kind: type) -> bool:
        if spot.kind == Within.Class or type(spot.value) is not kind:
            return False
        self.constants.append((*self._placed(spot), Compared.Type, (kind,), text))
        return True

    def _compare_absence(self, root: str, path: Path, text: str) -> bool:
        """Makes calls check that an object has no such attribute of its own."""
        *holder, (_, name) = path
        if not holder or not hasattr(self._walk(root, holder), "__dict__"):
            return False
        own = self._container(*self._place(root, holder), Within.Attributes)
        self.constants.append((own, name, Compared.Item, (), text))
        return True

    def identify(self, source: Source) -> None:
        """Makes calls check that the source is still the same function, class or
        module."""
        place = source.place
        if place is None or not place.path:
            return
        there = self._walk(place.root, place.path)
        if isinstance(there, types.FunctionType):
            code = Place(place.root, [*place.path, (True, "__code__")])
            self.compare(Source(source.text, code), there.__code__)
        elif isinstance(there, LASTING):
            self.compare(source, there)

    def _walk(self, root: str, path: Path) -> Any:
        return self._spot(root, path).value

    def _spot(self, root: str, path: Path) -> _Spot:
        spot = self._spots[root]
        for is_attribute, name in path:
            spot = spot.child(is_attribute, name)
        return spot

    def _place(self, root: str, path: Path) -> tuple[int, str | int]:
        """The number of the container at the end of a path, and the key in it."""
        return self._placed(self._spot(root, path))

    def _placed(self, spot: _Spot) -> tuple[int, str | int]:
        if spot.place is None:
            assert spot.parent is not None
            number, key = self._placed(spot.parent)
            # This holds as long as the object has no such attribute of its own.
            if spot.kind == Within.Class and isinstance(
                getattr(spot.parent.value, "__dict__", None), dict
            ):
                own = self._container(number, key, Within.Attributes)
                self.constants.append(
                    (own, spot.name, Compared.Item, (), f"{spot.name} of the class")
                )
            spot.place = self._container(number, key, spot.kind), spot.name
        return spot.place

    def _container(self, parent: int, key: str | int, kind: Within) -> int:
        row = (parent, key, kind)
        if row not in self._numbers:
            self._numbers[row] = len(self.containers)
            root = self.roots[str(key)] if parent < 0 and key != "L" else None
            self.containers.append((*row, root))
        return self._numbers[row]

    def around(self, graph: Callable[..., Any], arguments: int) -> Callable[..., Any]:
        """Wraps the graph: its calls get the module, and the arguments that are not
        fetched."""
        return _C.GraphCall(
            graph, Stale, arguments, self.containers, self.values, self.constants
        )
