"""What a recorded method's calls take from its module, and compare with what its
trace took for constant. _C.GraphCall does it; here it is told where things are."""

from __future__ import annotations

import inspect
import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from . import _C

# Pairs (attribute?, name): attributes of objects and items of dicts.
Path = Sequence[tuple[bool, str]]
# Name of a source, the value that the trace saw, and ("L" or "G", path) or None.
Constant = tuple[str, Any, "tuple[str, Path] | None"]

MISSING = object()
# What names of sources may call.
READERS = {"len": len, "tuple": tuple}


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


class ModuleTable:
    """The dicts of one module, and of the globals, as _C.GraphCall takes them."""

    def __init__(self, module: Any, globals_: dict[str, Any]) -> None:
        self.roots = {"L": module, "G": globals_}
        self.dicts: list[tuple[int, str, bool, Any]] = [
            (-1, "", True, None),
            (-1, "", False, globals_),
        ]
        self.values: list[tuple[int, str, int]] = []
        self.constants: list[tuple[int, str, tuple[Any, ...], str]] = []
        self._numbers: dict[tuple[int, str, bool], int] = {}

    def fetch(self, argument: int, path: Path) -> None:
        """The argument of this number is there."""
        if look_up(self.roots["L"], path) is MISSING:
            raise Stale(f"the module has no {path}")
        self.values.append((*self._place("L", path), argument))

    def compare(self, name: str, value: Any, where: tuple[str, Path] | None) -> bool:
        """Whether calls can see that it still has this value."""
        if where is None:
            return False
        root, path = where
        there = look_up(self.roots[root], path)
        if there is value:
            known: tuple[Any, ...] = (value,)
        elif there is MISSING and self._is_of_class(root, path, value):
            known = ()  # as long as the object has no such attribute of its own
        else:
            return False
        self.constants.append((*self._place(root, path), known, name))
        return True

    def _is_of_class(self, root: str, path: Path, value: Any) -> bool:
        *way, (is_attribute, key) = path
        owner = look_up(self.roots[root], way)
        if not is_attribute or not isinstance(getattr(owner, "__dict__", None), dict):
            return False
        return inspect.getattr_static(type(owner), key, MISSING) is value

    def _place(self, root: str, path: Path) -> tuple[int, str]:
        """The dict's number and the key in it."""
        number = 0 if root == "L" else 1
        for (_, key), (is_attribute, _) in itertools.pairwise(path):
            row = (number, key, is_attribute)
            if row not in self._numbers:
                self._numbers[row] = len(self.dicts)
                self.dicts.append((*row, None))
            number = self._numbers[row]
        return number, path[-1][1]

    def around(self, graph: Callable[..., Any], arguments: int) -> Callable[..., Any]:
        """The graph's call, for the module and what is not fetched."""
        return _C.GraphCall(
            graph, Stale, arguments, self.dicts, self.values, self.constants
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
