"""What a recorded method's calls take from its module, and compare with what its
trace took for constant. _C.GraphCall does it; here it is told where things are."""

from __future__ import annotations

import inspect
import re
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .. import _C

# Pairs (attribute?, key): attributes of objects, items of dicts and lists.
Path = Sequence[tuple[bool, str | int]]
# Where it begins, "L" (the module), "G" (the globals) or "F" (the function), the
# path from there, and what is asked of what is found: "", "len" or "tuple".
Where = tuple[str, Path, str]

MISSING = object()
# What names of sources may call.
READERS = {"len": len, "tuple": tuple}
# As ModuleState.h numbers them.
ATTRIBUTES, DICT, SEQUENCE, FUNCTION, CELL, CLASS = range(6)
ASKED = {"": 0, "len": 1, "tuple": 2}
SLOTS = ("__code__", "__defaults__", "__kwdefaults__", "__closure__")
# Objects that stay what they are; no other is compared by identity, for it may
# hold the module.
LASTING = (type, types.BuiltinFunctionType, types.ModuleType)


class Stale(Exception):
    """An entry was made of something else than what is called now."""


def look_up(root: Any, path: Path) -> Any:
    """What lies there, if only dicts are asked on the way; else MISSING."""
    value = root
    for is_attribute, key in path:
        holder = getattr(value, "__dict__", None) if is_attribute else value
        if not isinstance(holder, dict) or key not in holder:
            return MISSING
        value = holder[key]
    return value


def _step(holder: Any, is_attribute: bool, key: str | int) -> tuple[int, Any]:
    """How the value is found without running code, and the value; MISSING if it
    is not."""
    if not is_attribute:
        if isinstance(holder, dict) and isinstance(key, str) and key in holder:
            return DICT, holder[key]
        length = len(holder) if type(holder) in (list, tuple) else 0
        if isinstance(key, int) and 0 <= key < length:
            return SEQUENCE, holder[key]
        return DICT, MISSING
    assert isinstance(key, str)
    if isinstance(holder, types.FunctionType) and key in SLOTS:
        return FUNCTION, getattr(holder, key)
    if isinstance(holder, types.CellType) and key == "cell_contents":
        try:
            return CELL, holder.cell_contents
        except ValueError:
            return CELL, MISSING
    own = getattr(holder, "__dict__", None)
    if isinstance(own, dict) and key in own:
        return ATTRIBUTES, own[key]
    return CLASS, inspect.getattr_static(type(holder), key, MISSING)


class ModuleTable:
    """The containers of one module, of its method and of the globals, as
    _C.GraphCall takes them."""

    def __init__(self, module: Any, function: Any) -> None:
        self.roots = {"L": module, "G": function.__globals__, "F": function}
        self.containers: list[tuple[int, str | int, int, Any]] = []
        self.values: list[tuple[int, str | int, int]] = []
        self.constants: list[tuple[int, str | int, int, tuple[Any, ...], str]] = []
        self._numbers: dict[Any, int] = {}

    def fetch(self, argument: int, path: Path) -> None:
        """The argument of this number is there."""
        if look_up(self.roots["L"], path) is MISSING:
            raise Stale(f"the module has no {path}")
        self.values.append((*self._place("L", path), argument))

    def compare(self, name: str, value: Any, where: Where | None) -> bool:
        """Whether calls can see that it still has this value."""
        if where is None or not where[1]:
            return False
        root, path, asks = where
        there = self._walk(root, path)
        if asks:
            kind = DICT if isinstance(there, dict) else SEQUENCE
            if kind == SEQUENCE and type(there) not in (list, tuple):
                return False
            if kind == SEQUENCE and asks == "tuple":
                return False
            number, key = self._place(root, path)
            number, key = self._container(number, key, kind), ""
        elif there is value:
            number, key = self._place(root, path)
        else:
            return False
        self.constants.append((number, key, ASKED[asks], (value,), name))
        return True

    def identify(self, name: str, where: Where | None) -> None:
        """Calls see that it is still the same function, class or module."""
        if where is None or not where[1]:
            return
        root, path, _ = where
        there = self._walk(root, path)
        if isinstance(there, types.FunctionType):
            self.compare(name, there.__code__, (root, [*path, (True, "__code__")], ""))
        elif isinstance(there, LASTING):
            self.compare(name, there, where)

    def _walk(self, root: str, path: Path) -> Any:
        value = self.roots[root]
        for is_attribute, key in path:
            value = _step(value, is_attribute, key)[1]
            if value is MISSING:
                break
        return value

    def _place(self, root: str, path: Path) -> tuple[int, str | int]:
        """The number of the container where the path ends, and the key in it."""
        value, number = self.roots[root], -1
        key: str | int = root
        for is_attribute, name in path:
            kind, inner = _step(value, is_attribute, name)
            # As long as the object has no such attribute of its own.
            if kind == CLASS and isinstance(getattr(value, "__dict__", None), dict):
                own = self._container(number, key, ATTRIBUTES)
                self.constants.append((own, name, 0, (), f"{name} of the class"))
            number, key = self._container(number, key, kind), name
            value = inner
        return number, key

    def _container(self, parent: int, key: str | int, kind: int) -> int:
        row = (parent, key, kind)
        if row not in self._numbers:
            self._numbers[row] = len(self.containers)
            root = self.roots[str(key)] if parent < 0 and key != "L" else None
            self.containers.append((*row, root))
        return self._numbers[row]

    def around(self, graph: Callable[..., Any], arguments: int) -> Callable[..., Any]:
        """The graph's call, for the module and what is not fetched."""
        return _C.GraphCall(
            graph, Stale, arguments, self.containers, self.values, self.constants
        )


def arguments_hold(
    function: Any, constants: Sequence[tuple[str, Any]]
) -> Callable[..., bool] | None:
    """A function of the method's arguments: whether these sources, which begin at
    an argument other than the module, have these values. None where there is
    nothing to compare."""
    parameters = inspect.signature(function).parameters
    given = {*parameters} - {next(iter(parameters))}
    known: dict[str, Any] = {}
    conditions = []
    for number, (name, value) in enumerate(constants):
        locals_ = set(re.findall(r"\bL\['(\w+)'\]", name))
        if not locals_ or not locals_ <= given or "G[" in name:
            continue
        text = re.sub(r"\bL\['(\w+)'\]", r"\1", name)
        known[f"__known{number}"] = value
        if value is None or isinstance(value, bool):
            conditions.append(f"({text}) is __known{number}")
        else:
            known[f"__kind{number}"] = type(value)
            conditions.append(
                f"type(__value := ({text})) is __kind{number}"
                f" and __value == __known{number}"
            )
    if not conditions:
        return None
    source = f"lambda {_spell(parameters, known)}: {' and '.join(conditions)}"
    return eval(source, {"__builtins__": {"type": type, **READERS}, **known})


def _spell(parameters: Mapping[str, inspect.Parameter], known: dict[str, Any]) -> str:
    """A list of parameters; their defaults go into `known`."""
    words: list[str] = []
    starred = False
    kinds = [p.kind for p in parameters.values()]
    for number, (name, parameter) in enumerate(parameters.items()):
        kind = parameter.kind
        word = name
        if kind is parameter.VAR_POSITIONAL:
            word, starred = f"*{name}", True
        elif kind is parameter.VAR_KEYWORD:
            word = f"**{name}"
        elif kind is parameter.KEYWORD_ONLY and not starred:
            words.append("*")
            starred = True
        if parameter.default is not parameter.empty:
            known[f"__default{number}"] = parameter.default
            word += f"=__default{number}"
        words.append(word)
        behind = kinds[number + 1 : number + 2]
        if kind is parameter.POSITIONAL_ONLY and behind != [kind]:
            words.append("/")
    return ", ".join(words)
