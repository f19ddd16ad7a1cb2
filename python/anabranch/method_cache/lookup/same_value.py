"""Defines when a value is what the trace saw. Every comparison of a replay follows this
rule."""

from __future__ import annotations

import math
import struct
from typing import Any


def same(value: Any, known: Any) -> bool:
    """Whether `value` is the constant `known` that the trace saw. If it is, the traced
    code computes what eager PyTorch computes with `value`. The rule:

    - The same object is the same value.
    - Otherwise both have one type: True is not 1, and an `int` is no object of a class
      derived from `int`.
    - Classes, None, True and False equal only themselves.
    - Floats have the same bits, or both are NaN: 0.0 is not -0.0. Complex numbers have
      two such parts.
    - Tuples have as many items, and these are the same in order.
    - Frozensets have as many items, and the equal item of the other set is the same.
      Python finds a NaN in a set by its identity.
    - For all other types `==` gives True. An exception, or a result that is not True
      itself (a tensor, say), means that the values differ.

    A value that can change in place is compared through a copy (`frozenset`, `tuple`,
    `len`), since the same object would always be the same value.

    Dynamo's guard EQUALS_MATCH follows the same rule with two exceptions. It takes 0.0
    for -0.0, and it does not look at the types of items: for it, (1,) is (True,).
    It does take every NaN for a NaN that the trace saw, as this rule does.

    `_C.same_value` is the same rule in C++, for comparisons at every call.
    """
    kind = type(known)
    if value is known:
        return True
    if type(value) is not kind or only_itself(known):
        return False
    if kind is float:
        return _same_float(value, known)
    if kind is complex:
        return same(value.real, known.real) and same(value.imag, known.imag)
    if isinstance(known, tuple):
        return len(value) == len(known) and all(map(same, value, known))
    try:
        if isinstance(known, frozenset):
            return len(value) == len(known) and _has_same_items(value, known)
        return (value == known) is True
    except Exception:  # noqa: BLE001 - the value's own comparison
        return False


def only_itself(known: Any) -> bool:
    """Whether no object but `known` itself is the same value: `is` can compare it."""
    return known is None or isinstance(known, bool | type)


def _same_float(value: float, known: float) -> bool:
    if math.isnan(known):
        return math.isnan(value)
    return struct.pack("d", value) == struct.pack("d", known)


def _has_same_items(value: frozenset[Any], known: frozenset[Any]) -> bool:
    by_item = {item: item for item in value}
    return all(item in by_item and same(by_item[item], item) for item in known)
