"""Entries of the compile cache that hold files of a front end. Needs no PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..config import Config
from ..packages import cache

__all__ = [
    "CHATS",
    "CHAT_PACKAGE",
    "ROUNDINGS",
    "CacheEntry",
    "cache_folder",
    "find_entry",
    "keep_cache_small",
    "tensor_key",
]

CacheEntry = cache.Entry
# Kinds of entries that `anabranch cache ls` knows, and the folder of a chat's package.
CHATS, ROUNDINGS = cache.CHATS, cache.ROUNDINGS
CHAT_PACKAGE = cache.CHAT_PACKAGE


def cache_folder() -> str:
    """The user's compile cache; empty if there is none."""
    return cache.folder()


def find_entry(
    kind: str,
    key: Callable[[], Sequence[Any]],
    config: Config,
    root: str | None = None,
) -> CacheEntry | None:
    """The entry of the compile cache for this key, which the caller closes.

    kind    CHATS or ROUNDINGS
    key     gives values that JSON can spell; called only if there is a cache. The entry
            also depends on the processor, the compiler and the sources of this package
    config  the configuration of the caller; some configurations use no cache
    root    the folder of a cache; None: the user's

    None: there is no cache, or this configuration does not use it.
    """
    place = (root or cache.folder()) if cache.takes_part(config) else ""
    if not place:
        return None
    parts = (cache.FORMAT, kind, cache.identity(), cache.own_sources(), list(key()))
    return CacheEntry(cache.entry_folder(place, kind, cache.digest(*parts)))


def keep_cache_small(root: str | None = None) -> None:
    """Removes the entries that were used least recently, until the cache is below its
    limit. Call it after an entry was published."""
    cache.keep_small(root or cache.folder())


def tensor_key(name: str, tensor: Any) -> Any:
    """A part of a key: the tensor's name, dtype, shape and a hash of its values."""
    (key,) = cache.constants_key([(name, str(tensor.dtype), tensor)])
    return key
