"""The older name of the module that registers converters."""

from __future__ import annotations

from collections.abc import Callable as _Callable
from typing import Any as _Any

from .._impl.ge.converters import register_fx_node_ge_converter

__all__ = ["declare_supported", "register_fx_node_ge_converter"]


def declare_supported(cases: _Any) -> _Callable[[_Any], _Any]:
    """A decorator that returns the converter unchanged: `cases` are test cases of
    torchair."""
    return lambda function: function
