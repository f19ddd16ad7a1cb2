"""The steps that a source of Dynamo's takes from a variable to a value."""

from __future__ import annotations

import dataclasses
import enum
from typing import Any

from torch._dynamo import source as dynamo


class Step(enum.Enum):
    """How a step gets the next value from the last one."""

    ATTRIBUTE = enum.auto()  # the key is the name
    ITEM = enum.auto()  # of a dict or a tuple; the key is the name or place
    TYPE = enum.auto()
    BASES = enum.auto()  # `__mro__` of a class
    CLASS_DICT = enum.auto()  # `__dict__` of a class


@dataclasses.dataclass(frozen=True)
class Way:
    """From the variable `name`, a local or a global one, to a value."""

    name: str
    is_local: bool
    steps: tuple[tuple[Step, Any], ...]


# Sources that stand for their base.
_NAMES_OF_MODULES = (dynamo.NNModuleSource,)


def way_of(source: Any) -> Way | None:
    """The way of a source; None: a step of another kind is on it."""
    steps: list[tuple[Step, Any]] = []
    while (base := getattr(source, "base", None)) is not None:
        if not isinstance(source, _NAMES_OF_MODULES):
            step = _step(source)
            if step is None:
                return None
            steps.append(step)
        source = base
    if type(source) is dynamo.LocalSource:
        return Way(source.local_name, True, tuple(reversed(steps)))
    if type(source) is dynamo.GlobalSource:
        return Way(source.global_name, False, tuple(reversed(steps)))
    return None


def _step(source: Any) -> tuple[Step, Any] | None:
    kind = type(source)
    if kind in (
        dynamo.AttrSource,
        dynamo.ParamBufferSource,
        dynamo.UnspecializedParamBufferSource,
    ):
        return Step.ATTRIBUTE, source.member
    if kind is dynamo.DictGetItemSource and isinstance(source.index, str):
        return Step.ITEM, source.index
    if kind is dynamo.GetItemSource and type(source.index) is int:
        return (Step.ITEM, source.index) if not source.index_is_slice else None
    if kind is dynamo.TypeSource:
        return Step.TYPE, None
    if kind is dynamo.TypeMROSource:
        return Step.BASES, None
    if kind is dynamo.TypeDictSource:
        return Step.CLASS_DICT, None
    return None
