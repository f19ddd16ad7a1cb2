"""Attributes of IR nodes: one class for each kind of value."""

from __future__ import annotations

from typing import Any

__all__ = [
    "Attribute",
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


class Attribute:
    """A value of one kind. AssertionError: the value is None without a default, or an
    attribute of another kind."""

    def __init__(self, value: Any, default: Any = None) -> None:
        if isinstance(value, Attribute):
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


class Bool(Attribute):
    pass


class DataType(Attribute):
    pass


class Float(Attribute):
    pass


class Int(Attribute):
    pass


class ListBool(Attribute):
    pass


class ListDataType(Attribute):
    pass


class ListFloat(Attribute):
    pass


class ListInt(Attribute):
    pass


class ListListFloat(Attribute):
    pass


class ListListInt(Attribute):
    pass


class ListStr(Attribute):
    pass


class Str(Attribute):
    pass
