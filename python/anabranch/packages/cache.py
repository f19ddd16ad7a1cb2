"""Packages that were compiled before, by what they were compiled from.

docs/design/cache.md. Whatever is wrong with the cache, the package is made, and
the user hears of it once.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from .. import _C
from ..config import Config
from ..report import log

FORMAT = 2
PACKAGES, FUNCTIONS, KERNELS = "packages", "functions", "kernels"
OBJECTS = "objects"  # machine code of single kernels
TUNINGS = "tunings"  # blockings of products that were timed
# How long to wait for another process that compiles the same.
PATIENCE_S = 120.0
PIECE_S = 0.5
# Options that change what is seen of a compilation or where it runs, and not its
# result.
WATCHING = ("progress", "trace", "cache", "pin", "trust")

_warned: set[str] = set()


def warn_once(kind: str, text: str) -> None:
    if kind not in _warned:
        _warned.add(kind)
        if not log("warning", "warning", kind=kind, text=text):
            warnings.warn(text, stacklevel=2)


def folder() -> str:
    """The root of the store; empty where there is none."""
    return _C.cache_folder()


def entry_folder(root: str, kind: str, key: str) -> str:
    return os.path.join(root, kind, key[:2], key)


def digest(*parts: Any) -> str:
    """One hash over values that JSON can spell."""
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


@functools.cache
def identity() -> tuple[str, str, str]:
    """What every compiled thing depends on: machine, compiler, runtime."""
    return _C.cpu_identity(), _C.compiler_identity(), _C.runtime_version()


@functools.cache
def own_sources() -> str:
    """This package as it is installed: what is recorded depends on all of it."""
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    return digest(sorted(_python_files(here)))


def _python_files(folder: str) -> Iterator[tuple[str, int, int]]:
    """Path, size and time of change of each module in the folder and below."""
    with os.scandir(folder) as files:
        for file in files:
            if file.name.endswith(".py"):
                about = file.stat()
                yield file.path, about.st_size, about.st_mtime_ns
            elif file.is_dir() and file.name not in ("__pycache__", "assets"):
                yield from _python_files(file.path)


class Entry:
    """One entry, held by this process. `usable` is false once the cache has
    failed; everything is then as if it were empty."""

    def __init__(
        self, folder: str, index: str = "entry.json", trust: str | None = None
    ) -> None:
        """`trust`: as `Config.trust`."""
        self.folder = folder
        self.index = index
        self.usable = True
        self._entry = _C.CacheEntry(folder, index, trust or "")
        self._writing = False

    def read(self, on_broken: Callable[[str], None] | None = None) -> str | None:
        """The text of the entry, which stays as it is until `close`. Where there
        is none, whoever comes first holds the entry and is expected to publish;
        a broken entry is as none."""
        try:
            if self._lock(False):
                text = self._read(on_broken)
                if text is not None:
                    return text
            elif os.path.isdir(self.folder):
                return self._read(on_broken)  # where nothing can be written
            return self._read_as_writer(on_broken)
        except OSError as error:
            self._fail(error)
            return None

    def _read_as_writer(self, on_broken: Callable[[str], None] | None) -> str | None:
        self._writing = self._lock(True)
        if not self._writing:
            return None
        return self._read(on_broken)

    def _read(self, on_broken: Callable[[str], None] | None) -> str | None:
        try:
            return self._entry.read()
        except RuntimeError as error:
            if not self._writing:
                self._writing = self._lock(True)
                return self._read(on_broken) if self._writing else None
            self.discard(str(error), on_broken)
            return None

    def discard(
        self, reason: str, on_broken: Callable[[str], None] | None = None
    ) -> None:
        """Takes the entry away; this process is expected to publish another."""
        try:
            self._writing = self._writing or self._lock(True)
            if self._writing:
                (on_broken or _say_broken)(reason)
                self._entry.remove()
        except (OSError, RuntimeError) as error:
            self._fail(error)

    def publish(self, package: str, blobs: dict[str, bytes], text: str) -> bool:
        """Copies a package's files and `blobs` into the entry."""
        if not self.usable or not self._writing:
            return False
        try:
            sources = [
                (name, os.path.join(package, name))
                for name in sorted(os.listdir(package))
            ]
            self._entry.publish(sources, list(blobs.items()), text)
        except (OSError, RuntimeError) as error:
            self._fail(error)
            return False
        return True

    def remove(self) -> None:
        """For good."""
        try:
            if self._lock(True):
                self._entry.remove()
        except OSError as error:
            self._fail(error)
        finally:
            self.close()

    def _lock(self, exclusive: bool) -> bool:
        """Waits in pieces: between them Ctrl-C is heard."""
        end = time.monotonic() + PATIENCE_S
        while not self._entry.lock(exclusive, PIECE_S):
            if time.monotonic() >= end or (not exclusive and not self._can_wait()):
                return False
        return True

    def _can_wait(self) -> bool:
        """Where nothing can be written there is no lock to wait for."""
        return os.access(os.path.dirname(self.folder), os.W_OK)

    def close(self) -> None:
        self._writing = False
        self._entry.unlock()

    def _fail(self, error: Exception) -> None:
        self.usable = False
        warn_once("unusable", f"the compile cache can't be used: {error}")


def _say_broken(reason: str) -> None:
    warn_once("broken", f"an entry of the compile cache is made anew: {reason}")


@contextlib.contextmanager
def package_entry(key_parts: Callable[[], Any], config: Config) -> Iterator[Entry]:
    """The entry of a package, or one that holds and keeps nothing."""
    entry: Entry | None = None
    root = folder() if takes_part(config) else ""
    if root:
        key = digest(FORMAT, PACKAGES, identity(), key_parts())
        entry = Entry(entry_folder(root, PACKAGES, key), trust=config.trust)
    try:
        yield entry or _Nothing()
    finally:
        if entry is not None:
            entry.close()


class _Nothing(Entry):
    """The cache is off."""

    def __init__(self) -> None:
        self.folder = ""
        self.usable = False

    def read(self, on_broken: Callable[[str], None] | None = None) -> str | None:
        return None

    def discard(self, reason: str, on_broken: Any = None) -> None:
        pass


def takes_part(config: Config) -> bool:
    """Whoever looks at the compiler's work wants it to be done."""
    return (
        config.cache
        and config.dump is None
        and config.stop is None
        and not config.debug
        and not config.explain
    )


def keep_small(root: str) -> None:
    """Removes what was used least recently, beyond the limit."""
    try:
        _C.prune_cache(root, _C.cache_limit())
    except (OSError, ValueError) as error:
        warn_once("limit", str(error))


def constants_key(constants: list[tuple[str, str, Any]]) -> list[Any]:
    return [
        # One copy at a time of those that are not contiguous.
        (name, dtype, list(value.shape), _C.hash_tensor(value.contiguous()))
        for name, dtype, value in constants
    ]
