"""Functions and methods that are compiled once, to a place of the user's."""

from ._impl.cache.no_guard import NoGuardCompiledFunction, NoGuardCompiledMethod

__all__ = ["NoGuardCompiledFunction", "NoGuardCompiledMethod"]
