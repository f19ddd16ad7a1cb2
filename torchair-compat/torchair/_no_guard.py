"""Functions and methods that are compiled once and saved in a folder of the user's
choice."""

from ._impl.cache.no_guard import NoGuardCompiledFunction, NoGuardCompiledMethod

__all__ = ["NoGuardCompiledFunction", "NoGuardCompiledMethod"]
