"""Parses Dynamo's names of sources: where a trace read a value. Only this module does.

Dynamo names a source by a Python expression over the locals `L` and the globals `G` of
the method, such as `L['self']._modules['fc'].training`. Its guards on sizes are
expressions over several such names."""

from __future__ import annotations

import ast
import dataclasses
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .bytecode import code_digest

# A path is a list of pairs (attribute?, key): attributes of objects, items of dicts and
# lists.
Path = Sequence[tuple[bool, str | int]]

MISSING = object()

# Functions in the text of a source whose value is a hash or a name. The first call
# compares these; later calls compare the object itself (`ModuleTable.identify`).
CODE_DIGEST, IDENTITY = "code_digest", "identity"
# A source inside a class begins so. The hashes of source files compare its functions.
OF_CLASSES = "dict(type("


def identity(value: Any) -> tuple[Any, ...]:
    """The name of a function, class or module that all processes give it; for another
    object, the name of its type. Two objects may have one name: then the hashes of the
    source files tell them apart."""
    if isinstance(value, types.ModuleType):
        return ("module", value.__name__)
    if isinstance(value, types.MethodType):
        value = value.__func__
    name = getattr(value, "__qualname__", None)
    if name is None:
        return ("instance", *identity(type(value)))
    code = getattr(value, "__code__", None)
    return (str(value.__module__), name, code and code.co_firstlineno)


def base_value(value: Any) -> tuple[Any, ...]:
    """The number or string that an object of a derived class equals, and its class."""
    bases: tuple[Any, ...] = (int, float, str, bytes)
    for base in bases:
        if isinstance(value, base):
            return (base(value), *identity(type(value)))
    raise TypeError(f"{type(value).__name__} is no number and no string")


def absent(value: Any, name: str) -> bool:
    """Whether an object has no attribute of this name of its own."""
    return name not in vars(value)


# Functions that a source may call.
READERS: dict[str, Callable[..., Any]] = {
    "dict": dict,
    "type": type,
    "frozenset": frozenset,
    "len": len,
    "tuple": tuple,
    "hasattr": hasattr,
    "absent": absent,
    "base_value": base_value,
    CODE_DIGEST: code_digest,
    IDENTITY: identity,
}


def look_up(root: Any, path: Path) -> Any:
    """The value at a path, if only dicts are read on the way; else MISSING."""
    value = root
    for is_attribute, key in path:
        holder = getattr(value, "__dict__", None) if is_attribute else value
        if not isinstance(holder, dict) or key not in holder:
            return MISSING
        value = holder[key]
    return value


@dataclasses.dataclass(frozen=True)
class Place:
    """Where a value is, without running the user's code.

    `root` is "L" (the module), "G" (the globals) or "F" (the function). `asks` is what
    is compared: "" (the value), "len", "tuple" or "type" of it; "absent" says that there
    is no value.
    """

    root: str
    path: Path
    asks: str = ""


@dataclasses.dataclass(frozen=True)
class Source:
    """An expression over `L` and `G`, and the place of its value; None without a place."""

    text: str
    place: Place | None

    @classmethod
    def parse(cls, text: str, function: Any) -> Source:
        """The source that Dynamo names so while it traces `function`."""
        return cls(text, _place(text, function))

    def spelled(self) -> tuple[Any, ...]:
        """The source in a form that `marshal` can save."""
        if self.place is None:
            return (self.text,)
        path = [tuple(step) for step in self.place.path]
        return self.text, self.place.root, path, self.place.asks

    @classmethod
    def read(cls, spelled: Sequence[Any]) -> Source:
        text, *place = spelled
        return cls(text, Place(*place) if place else None)

    @property
    def is_for_first_call(self) -> bool:
        """Whether calls after the first one need not compare the value."""
        only_first = (f"{CODE_DIGEST}(", f"{IDENTITY}(", OF_CLASSES)
        return any(words in self.text for words in only_first)

    def value(self, function: Any, locals_: Mapping[str, Any]) -> Any:
        """The value in a call with these locals. Raises any exception if there is none."""
        return values([self], function, locals_)[0]

    def over_arguments(self, given: set[str]) -> str | None:
        """The expression over arguments, by their names, and the globals `G`. None: it
        reads locals that are not in `given`."""
        names = _ArgumentNames()
        body = names.visit(ast.parse(self.text, mode="eval"))
        if names.other or not names.found <= given:
            return None
        return ast.unparse(body)


def values(
    sources: Sequence[Source], function: Any, locals_: Mapping[str, Any]
) -> list[Any]:
    """The values of all sources, from one evaluation."""
    scope = {"L": locals_, "G": function.__globals__}
    text = f"[{', '.join(source.text for source in sources)}]"
    return eval(text, {"__builtins__": READERS}, scope)


class _ArgumentNames(ast.NodeTransformer):
    """Replaces `L['name']` by the bare name."""

    def __init__(self) -> None:
        self.found: set[str] = set()
        self.other = False  # whether the expression reads `L` as a whole

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        key = node.slice
        is_local = isinstance(node.value, ast.Name) and node.value.id == "L"
        if not is_local or not isinstance(key, ast.Constant):
            return self.generic_visit(node)
        name = str(key.value)
        self.found.add(name)
        return ast.Name(name, ast.Load())

    def visit_Name(self, node: ast.Name) -> ast.AST:
        self.other |= node.id == "L"
        return node


def _place(text: str, function: Any) -> Place | None:
    try:
        node = ast.parse(text, mode="eval").body
    except SyntaxError:
        return None
    asks = ""
    steps: list[tuple[bool, Any]] = []
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.args:
        if node.func.id == "absent" and isinstance(node.args[1], ast.Constant):
            steps.append((True, node.args[1].value))
        asks, node = node.func.id, node.args[0]
    while not isinstance(node, ast.Name):
        if isinstance(node, ast.Attribute):
            steps.append((True, node.attr))
        elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
            steps.append((False, node.slice.value))
        else:
            return None
        node = node.value
    steps.reverse()
    is_known = asks in ("", "len", "tuple", "type", "absent")
    if not is_known or not all(type(key) in (str, int) for _, key in steps):
        return None
    if node.id == "G" and steps:
        return Place("G", steps, asks)
    if node.id != "L" or not steps or steps[0][0]:
        return None
    return _place_of_local(steps[0][1], steps[1:], asks, function.__code__)


def _place_of_local(name: Any, rest: Path, asks: str, code: Any) -> Place | None:
    """The place that a local's path leads to: from the method's first parameter, or
    from a variable that the method closes over."""
    owner, free = code.co_varnames[0], code.co_freevars
    if name == owner and rest:
        return Place("L", rest, asks)
    if name in free:
        cell = [(True, "__closure__"), (False, free.index(name))]
        return Place("F", [*cell, (True, "cell_contents"), *rest], asks)
    return None
