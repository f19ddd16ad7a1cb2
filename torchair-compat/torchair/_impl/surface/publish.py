"""Puts the names of the table into their modules, and makes the modules that are missing."""

from __future__ import annotations

import difflib
import functools
import sys
from collections.abc import Callable, Collection
from types import ModuleType
from typing import Any, NoReturn

from ..device import npu
from ..errors import warn_once
from .table import NOTHING, REFUSED, ROWS, Row

__all__ = ["missing", "publish"]


@functools.cache
def publish(torch_npu: ModuleType) -> None:
    """Makes every name of the table importable."""
    homes = {"torch_npu": torch_npu, "torch.npu": npu}
    for row in ROWS:
        home, _, name = row.name.rpartition(".")
        setattr(_module(home, homes), name, _made(row))


def _module(path: str, homes: dict[str, ModuleType]) -> ModuleType:
    """The module of this path, which is made if there is none."""
    if path not in homes:
        parent, _, name = path.rpartition(".")
        above = _module(parent, homes)
        found = getattr(above, name, None)
        if not isinstance(found, ModuleType):
            found = ModuleType(path, f"Names of {path} that public code uses.")
            setattr(above, name, found)
        sys.modules.setdefault(path, found)
        homes[path] = found
    return homes[path]


def _made(row: Row) -> Any:
    if row.kind == NOTHING:
        return _without_effect(row)
    return _refusing(row) if row.kind == REFUSED else row.value


def _without_effect(row: Row) -> Callable[..., Any]:
    def call(*_: Any, **__: Any) -> Any:
        warn_once(f"{row.name} has no effect on this host: {row.text}")
        return row.value

    return _named(call, row)


def _refusing(row: Row) -> Callable[..., Any]:
    def call(*_: Any, **__: Any) -> NoReturn:
        raise NotImplementedError(f"{row.name} is not on this host: {row.text}")

    return _named(call, row)


def _named(call: Callable[..., Any], row: Row) -> Callable[..., Any]:
    call.__name__ = call.__qualname__ = row.name.rpartition(".")[2]
    call.__doc__ = f"{row.kind}: {row.text}."
    return call


def missing(name: str, known: Collection[str]) -> str:
    """The text of the error for a name that torch_npu does not have here."""
    near = difflib.get_close_matches(name, known, 3, 0.6)
    like = f" Names like it: {', '.join(near)}." if near else ""
    return (
        f"module 'torch_npu' has no attribute {name!r} on this host.{like} OPERATORS.md"
        " and NAMES.md of torchair-compat list what there is"
    )
