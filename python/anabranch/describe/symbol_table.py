"""Lists the symbols of a description: the sizes that it uses, and the range of each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import sympy

from .symbols import Unsupported, names

# Dynamo makes smaller sizes constants.
SMALLEST_SYMBOLIC = 2


def symbols_of(
    inputs: Sequence[dict[str, Any]],
    others: Iterable[dict[str, Any]],
    shape_env: Any,
) -> list[dict[str, Any]]:
    """One row for each symbol in these entries of a description. Unsupported: a symbol
    is not a size of any input."""
    used: set[str] = set()
    defined: set[str] = set()
    for entry in (*inputs, *others):
        used |= _symbols_in(entry)
    for entry in inputs:
        if isinstance(entry.get("expr"), str):
            defined.add(entry["expr"])
        defined |= {size for size in entry.get("shape", []) if isinstance(size, str)}
    if missing := used - defined:
        raise Unsupported(f"no input has the size {', '.join(sorted(missing))}")
    return [_symbol(name, shape_env) for name in sorted(used)]


def admit_small(symbols: list[dict[str, Any]]) -> None:
    """Lets the program of a graph run sizes of zero and one. `small_sizes` says which
    graphs compute them like all other sizes."""
    for symbol in symbols:
        if symbol.get("min") == SMALLEST_SYMBOLIC:
            symbol["min"] = 0


def bounds_of(bounds: Any) -> dict[str, int]:
    """The ends of a symbol's range that are finite: "min", "max"."""
    found = {}
    if bounds.lower.is_Integer:
        found["min"] = int(bounds.lower)
    if bounds.upper.is_Integer and int(bounds.upper) < 2**62:
        found["max"] = int(bounds.upper)
    return found


def _symbols_in(entry: Any) -> set[str]:
    """The symbols in shapes, strides and {"expr"} anywhere in an entry."""
    if isinstance(entry, list):
        return set().union(*map(_symbols_in, entry))
    if not isinstance(entry, dict):
        return set()
    found: set[str] = set()
    for key, value in entry.items():
        if key == "expr":
            found |= names(value)
        elif key in ("shape", "strides"):
            found |= set().union(*map(names, value))
        elif key in ("args", "results"):
            found |= _symbols_in(list(value.values()) if key == "args" else value)
    return found


def _symbol(name: str, shape_env: Any) -> dict[str, Any]:
    described: dict[str, Any] = {"name": name}
    for symbol, bounds in getattr(shape_env, "var_to_range", {}).items():
        if symbol.name == name:
            described |= bounds_of(bounds)
    hints = getattr(shape_env, "backed_var_to_val", None)
    if hints is None:
        hints = getattr(shape_env, "var_to_val", {})
    for symbol, hint in hints.items():
        if symbol.name != name:
            continue
        if not sympy.sympify(hint).is_Integer:
            raise Unsupported("a size that only a jagged tensor has")
        described["hint"] = int(hint)
    return described
