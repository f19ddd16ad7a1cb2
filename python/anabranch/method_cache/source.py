"""Where a trace read a value: Dynamo's names of sources, read in this module alone.

Dynamo names a source by a Python expression over the locals `L` and the globals `G`
of the method, such as `L['self']._modules['fc'].training`. Its guards on sizes are
expressions over several such names.
"""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

# Pairs (attribute?, key): attributes of objects, items of dicts and lists.
Path = Sequence[tuple[bool, str | int]]

# What a source may call.
READERS = {"len": len, "tuple": tuple}


MISSING = object()


def look_up(root: Any, path: Path) -> Any:
    """What lies at a path, if only dicts are asked on the way; else MISSING."""
    value = root
    for is_attribute, key in path:
        holder = getattr(value, "__dict__", None) if is_attribute else value
        if not isinstance(holder, dict) or key not in holder:
            return MISSING
        value = holder[key]
    return value


@dataclasses.dataclass(frozen=True)
class Place:
    """Where a value lies, found by asking containers alone. `root` is "L" (the
    module), "G" (the globals) or "F" (the function); `asks` is what is asked of the
    value: "" (itself), "len" or "tuple"."""

    root: str
    path: Path
    asks: str = ""


@dataclasses.dataclass(frozen=True)
class Source:
    """An expression over `L` and `G`, and the place of its value, if it has one."""

    text: str
    place: Place | None

    @classmethod
    def parse(cls, text: str, function: Any) -> Source:
        """The source that Dynamo gives this name while it traces `function`."""
        return cls(text, _place(text, function))

    def spelled(self) -> tuple[Any, ...]:
        """As `marshal` can write it."""
        if self.place is None:
            return (self.text,)
        path = [tuple(step) for step in self.place.path]
        return self.text, self.place.root, path, self.place.asks

    @classmethod
    def read(cls, spelled: Sequence[Any]) -> Source:
        text, *place = spelled
        return cls(text, Place(*place) if place else None)

    def value(self, function: Any, locals_: Mapping[str, Any]) -> Any:
        """Its value in a call with these locals; any exception where it has none."""
        return values([self], function, locals_)[0]

    def over_arguments(self, given: set[str]) -> str | None:
        """The expression over arguments by their names; None where it reads
        anything but the arguments `given`, or none of them."""
        # Most sources read the module alone and need no parsing to be told apart.
        if not any(f"L[{name!r}]" in self.text for name in given):
            return None
        names = _ArgumentNames()
        body = names.visit(ast.parse(self.text, mode="eval"))
        if names.other or not names.found or not names.found <= given:
            return None
        return ast.unparse(body)


def values(
    sources: Sequence[Source], function: Any, locals_: Mapping[str, Any]
) -> list[Any]:
    """The values of all sources, by one evaluation."""
    scope = {"L": locals_, "G": function.__globals__}
    text = f"[{', '.join(source.text for source in sources)}]"
    return eval(text, {"__builtins__": READERS}, scope)


class _ArgumentNames(ast.NodeTransformer):
    """Puts the bare name for `L['name']`."""

    def __init__(self) -> None:
        self.found: set[str] = set()
        self.other = False  # whether globals, or all locals, are read

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        key = node.slice
        is_local = isinstance(node.value, ast.Name) and node.value.id == "L"
        if not is_local or not isinstance(key, ast.Constant):
            return self.generic_visit(node)
        name = str(key.value)
        self.found.add(name)
        return ast.Name(name, ast.Load())

    def visit_Name(self, node: ast.Name) -> ast.AST:
        self.other |= node.id in ("L", "G")
        return node


def _place(text: str, function: Any) -> Place | None:
    try:
        node = ast.parse(text, mode="eval").body
    except SyntaxError:
        return None
    asks = ""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.args:
        asks, node = node.func.id, node.args[0]
    steps: list[tuple[bool, Any]] = []
    while not isinstance(node, ast.Name):
        if isinstance(node, ast.Attribute):
            steps.append((True, node.attr))
        elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
            steps.append((False, node.slice.value))
        else:
            return None
        node = node.value
    steps.reverse()
    is_known = asks in ("", *READERS)
    if not is_known or not all(type(key) in (str, int) for _, key in steps):
        return None
    if node.id == "G" and steps:
        return Place("G", steps, asks)
    if node.id != "L" or not steps or steps[0][0]:
        return None
    return _place_of_local(steps[0][1], steps[1:], asks, function.__code__)


def _place_of_local(name: Any, rest: Path, asks: str, code: Any) -> Place | None:
    """From the method's first parameter, or from what the method closes over."""
    owner, free = code.co_varnames[0], code.co_freevars
    if name == owner and rest:
        return Place("L", rest, asks)
    if name in free:
        cell = [(True, "__closure__"), (False, free.index(name))]
        return Place("F", [*cell, (True, "cell_contents"), *rest], asks)
    return None
