"""The older place of the registration of converters."""

from __future__ import annotations

from collections.abc import Callable as _Callable
from typing import Any as _Any

from .._impl.ge.converters import register_fx_node_ge_converter

__all__ = ["declare_supported", "register_fx_node_ge_converter"]


def declare_supported(cases: _Any) -> _Callable[[_Any], _Any]:
    """A decorator that leaves a converter as it is: `cases` are for torchair's own
    tests."""
    return lambda function: function
