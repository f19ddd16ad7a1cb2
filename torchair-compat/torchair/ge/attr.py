"""Attributes of IR nodes, each of its kind."""

from __future__ import annotations

from typing import Any

__all__ = [
    "Bool",
    "DataType",
    "Float",
    "Int",
    "ListBool",
    "ListDataType",
    "ListFloat",
    "ListInt",
    "ListListFloat",
    "ListListInt",
    "ListStr",
    "Str",
]


class _Attribute:
    """A value of one kind. AssertionError for None without a default, and for an
    attribute of another kind."""

    def __init__(self, value: Any, default: Any = None) -> None:
        if isinstance(value, _Attribute):
            assert type(value) is type(self), (
                f"Type mismatch: expect {_name(type(self))}, but got {value!r}"
            )
            value = value.value
        self.value: Any = default if value is None else value
        assert self.value is not None, "Value cannot be None."

    def __repr__(self) -> str:
        return f"{_name(type(self))}({self.value})"

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self.value == other.value

    def __hash__(self) -> int:
        return hash(repr(self))


def _name(kind: type) -> str:
    return f"ge.attr.{kind.__name__}"


class Bool(_Attribute):
    pass


class DataType(_Attribute):
    pass


class Float(_Attribute):
    pass


class Int(_Attribute):
    pass


class ListBool(_Attribute):
    pass


class ListDataType(_Attribute):
    pass


class ListFloat(_Attribute):
    pass


class ListInt(_Attribute):
    pass


class ListListFloat(_Attribute):
    pass


class ListListInt(_Attribute):
    pass


class ListStr(_Attribute):
    pass


class Str(_Attribute):
    pass
