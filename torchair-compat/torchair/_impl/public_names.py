"""Public functions and classes say that they are of the public module that has them."""

from __future__ import annotations

import inspect
import sys

__all__ = ["publish"]


def publish(package: str) -> None:
    """Sets `__module__` of what the package's public modules export. The module with the
    longest name goes first: packages export names of their modules again."""
    names = [
        name
        for name in sys.modules
        if f"{name}.".startswith(f"{package}.") and "._" not in name
    ]
    for name in sorted(names, key=len, reverse=True):
        module = sys.modules[name]
        for exported in getattr(module, "__all__", ()):
            value = getattr(module, exported)
            if not (inspect.isfunction(value) or inspect.isclass(value)):
                continue
            if value.__module__.startswith(f"{package}._"):
                value.__module__ = name
