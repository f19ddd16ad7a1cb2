"""The older place of the registration of converters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .._impl.compile.unsupported import register_fx_node_ge_converter

__all__ = ["declare_supported", "register_fx_node_ge_converter"]


def declare_supported(cases: Any) -> Callable[[Any], Any]:
    """A decorator that leaves a converter as it is: `cases` are for torchair's own
    tests."""
    return lambda function: function
