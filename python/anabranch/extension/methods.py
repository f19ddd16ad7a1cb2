"""Methods that later processes replay from the compile cache."""

from __future__ import annotations

import types
from typing import Any

from ..method_cache import bytecode, cached_method, entry_text, policy
from ..packages import cache

__all__ = [
    "CachePolicy",
    "CachedMethod",
    "add_index_name",
    "check_method",
    "code_digest",
    "readable_cache",
]

CachePolicy = policy.CachePolicy
CachedMethod = cached_method.CachedMethod
readable_cache = entry_text.readable_cache


def add_index_name(name: str) -> None:
    """Makes `readable_cache` find entries of a CachePolicy whose `index` is `name`."""
    entry_text.index_names.append(name)


def check_method(method: Any) -> types.MethodType:
    """The method, if it is the method of an nn.Module. ValueError: it is anything else,
    which cannot be cached."""
    return cached_method.check_method(method)


def code_digest(function: Any) -> str:
    """A hash of what a function does; for a callable without Python code, a hash of its
    name."""
    code = getattr(function, "__code__", None)
    if isinstance(code, types.CodeType):
        return bytecode.code_digest(code)
    return cache.digest(getattr(function, "__qualname__", type(function).__name__))
