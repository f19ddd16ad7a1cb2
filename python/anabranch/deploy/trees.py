"""Nested arguments and results of a package, as JSON.

A tree is the number of an input or output, {"tuple": [tree, ...]}, {"list": [tree,
...]}, {"dict": [[key, tree], ...]}, or {"value": ...} for a fixed value. A key is a
string, a number, a bool or None. Needs no PyTorch."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

Tree = Any
Key = str | int | float | None  # a bool is an int


def is_key(value: Any) -> bool:
    """Whether JSON gives back this key of a dict: NaN equals no key."""
    if isinstance(value, float):
        return not math.isnan(value)
    return value is None or isinstance(value, str | int)


def leaves(tree: Tree, path: tuple[str, ...] = ()) -> Iterator[tuple[int, str]]:
    """(number, path) of each leaf, in order."""
    if isinstance(tree, int):
        yield tree, ".".join(path)
    elif "dict" in tree:
        for key, child in tree["dict"]:
            yield from leaves(child, (*path, str(key)))
    else:
        for number, child in enumerate(tree.get("tuple") or tree.get("list") or []):
            yield from leaves(child, (*path, str(number)))


def check(tree: Tree, count: int) -> None:
    """ValueError: this is not a tree over `count` leaves."""
    if isinstance(tree, int) and not isinstance(tree, bool):
        if not 0 <= tree < count:
            raise ValueError(f"there is no leaf {tree}: there are {count}")
        return
    if not isinstance(tree, dict) or len(tree) != 1:
        raise ValueError(f"a tree has a node that is neither int nor dict: {tree!r}")
    kind, content = next(iter(tree.items()))
    if kind == "value":
        return
    if kind == "dict" and isinstance(content, list):
        children = [_entry(item)[1] for item in content]
    elif kind in ("tuple", "list") and isinstance(content, list):
        children = content
    else:
        raise ValueError(f"a tree has a node of the kind {kind!r}")
    for child in children:
        check(child, count)


def _entry(item: Any) -> tuple[Key, Tree]:
    if isinstance(item, list) and len(item) == 2 and is_key(item[0]):
        return item[0], item[1]
    raise ValueError("a dict has an entry without a key")


def take(tree: Tree, value: Any, where: str, put: Callable[[int, Any], None]) -> None:
    """Passes the leaves of `value` to `put`, with their numbers. TypeError: `value` is
    nested in another way than the tree."""
    if isinstance(tree, int):
        put(tree, value)
    elif "value" in tree:
        if isinstance(value, type(tree["value"])) and value == tree["value"]:
            return
        raise TypeError(
            f"{where}: the model was exported with {tree['value']!r}, got {value!r}"
        )
    elif "dict" in tree:
        wanted = dict(tree["dict"])
        if not isinstance(value, Mapping) or set(value) != set(wanted):
            keys = ", ".join(map(str, wanted))
            raise TypeError(f"{where}: expected a dict of {keys}")
        for key, child in wanted.items():
            take(child, value[key], f"{where}[{key!r}]", put)
    else:
        kind = "tuple" if "tuple" in tree else "list"
        wanted = tree[kind]
        if not isinstance(value, tuple | list) or len(value) != len(wanted):
            raise TypeError(f"{where}: expected a {kind} of {len(wanted)}")
        for number, child in enumerate(wanted):
            take(child, value[number], f"{where}[{number}]", put)


def build(tree: Tree, values: list[Any]) -> Any:
    """The nested value that has `values` as its leaves."""
    if isinstance(tree, int):
        return values[tree]
    if "value" in tree:
        return tree["value"]
    if "dict" in tree:
        return {key: build(child, values) for key, child in tree["dict"]}
    if "list" in tree:
        return [build(child, values) for child in tree["list"]]
    return tuple(build(child, values) for child in tree["tuple"])
