"""How Python finds an attribute, without running the user's code."""

from __future__ import annotations

import types
from typing import Any

ABSENT = object()
# Ways to read an attribute that look into the object's dict and its class.
PLAIN_READERS = (object.__getattribute__, types.ModuleType.__getattribute__)


def of_class(kind: type, name: str) -> Any:
    """What the class or one of its bases defines under the name, or ABSENT."""
    for base in kind.__mro__:
        if name in base.__dict__:
            return base.__dict__[name]
    return ABSENT


def is_hidden(kind: type, name: str) -> bool:
    """Whether a property or another descriptor of the class hides an object's own
    attribute of this name."""
    return hasattr(type(of_class(kind, name)), "__set__")
