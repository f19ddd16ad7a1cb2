"""Finds packages that were compiled before, by a hash of what they were compiled from.

If the cache cannot be used, the package is compiled and a warning says so once.
docs/design/cache.md."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import shutil
import tarfile
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from .. import _C
from ..config import Config
from ..report import log
from . import handed_over

FORMAT = 3
PACKAGES, FUNCTIONS, KERNELS = "packages", "functions", "kernels"
OBJECTS = "objects"  # machine code of single kernels
TUNINGS = "tunings"  # blockings of products that were timed
ROUNDINGS = "roundings"  # quantised layers of language models
CHATS = "chats"  # tokenizers of models; each has an exported package beside it
CHAT_PACKAGE = "package"
# How long to wait for another process that compiles the same package.
PATIENCE_S = 120.0
PIECE_S = 0.5
# Options that do not change the result: they say where a compilation runs, or what it
# reports.
WATCHING = ("progress", "trace", "cache", "pin", "trust", "notices", "eager_first")

_warned: set[str] = set()


def warn_once(kind: str, text: str) -> None:
    if kind not in _warned:
        _warned.add(kind)
        if not log("warning", "warning", kind=kind, text=text):
            warnings.warn(text, stacklevel=2)


def folder() -> str:
    """The root of the cache; empty if there is none."""
    return _C.cache_folder()


def entry_folder(root: str, kind: str, key: str) -> str:
    return os.path.join(root, kind, key[:2], key)


def digest(*parts: Any) -> str:
    """One hash of values that JSON can spell."""
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


@functools.cache
def identity() -> tuple[str, str, str]:
    """The facts that every compiled package depends on: machine, compiler, runtime."""
    return _C.cpu_identity(), _C.compiler_identity(), _C.runtime_version()


@functools.cache
def own_sources() -> str:
    """A hash of this package's installed sources: a recording depends on all of them."""
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    return digest(sorted(_python_files(here)))


def _python_files(folder: str) -> Iterator[tuple[str, int, int]]:
    """Path, size and time of change of each Python file in the folder and below."""
    with os.scandir(folder) as files:
        for file in files:
            if file.name.endswith(".py"):
                about = file.stat()
                yield file.path, about.st_size, about.st_mtime_ns
            elif file.is_dir() and file.name not in ("__pycache__", "assets"):
                yield from _python_files(file.path)


class Entry:
    """One entry, held by this process. If the cache fails, `usable` becomes false, and
    the entry then behaves as if it were empty."""

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
        """The text of the entry, which does not change until `close`.

        None: there is no entry, or a broken one. Then this process holds the entry and
        is expected to publish it; other processes wait.
        """
        try:
            if self._lock(False):
                text = self._read(on_broken)
                if text is not None:
                    return text
            elif os.path.isdir(self.folder):
                return self._read(on_broken)  # nothing can be written here
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
        """Removes the entry. This process is expected to publish another."""
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

    def add_folder(self, source: str, name: str) -> bool:
        """Moves a folder into the entry that this process has published. `read` does
        not look at it."""
        if not self.usable or not self._writing:
            return False
        try:
            shutil.move(source, os.path.join(self.folder, name))
        except OSError as error:
            self._fail(error)
            return False
        return True

    def remove(self) -> None:
        """Removes the entry for good."""
        try:
            if self._lock(True):
                self._entry.remove()
        except OSError as error:
            self._fail(error)
        finally:
            self.close()

    def _lock(self, exclusive: bool) -> bool:
        """Waits for the lock in short steps, so that Ctrl-C is handled in between."""
        end = time.monotonic() + PATIENCE_S
        while not self._entry.lock(exclusive, PIECE_S):
            if time.monotonic() >= end or (not exclusive and not self._can_wait()):
                return False
        return True

    def _can_wait(self) -> bool:
        """Whether there is a lock to wait for: not where nothing can be written."""
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
    """The entry of a package; without a cache, one that is always empty and keeps
    nothing."""
    entry: Entry | None = None
    root = folder() if takes_part(config) else ""
    if root:
        key = digest(FORMAT, PACKAGES, identity(), key_parts())
        entry = PackageEntry(root, key, config.trust)
    try:
        yield entry or _Nothing()
    finally:
        if entry is not None:
            entry.close()


class PackageEntry(Entry):
    """The entry of a package, which torch.compiler.save_cache_artifacts carries to other
    machines."""

    def __init__(self, root: str, key: str, trust: str | None) -> None:
        super().__init__(entry_folder(root, PACKAGES, key), trust=trust)
        self.key = key

    def read(self, on_broken: Callable[[str], None] | None = None) -> str | None:
        text = super().read(on_broken)
        if text is None and self._writing:
            text = self._take()
        if text is not None:
            handed_over.offer(self.key, self.folder, self.index, text)
        return text

    def _take(self) -> str | None:
        """The text of a package that PyTorch loaded, which becomes this entry."""

        def publish(package: str, text: str) -> bool:
            return super(PackageEntry, self).publish(package, {}, text)

        try:
            return handed_over.find(self.key, publish)
        except (OSError, tarfile.TarError) as error:
            _say_broken(str(error))
            return None

    def publish(self, package: str, blobs: dict[str, bytes], text: str) -> bool:
        published = super().publish(package, blobs, text)
        if published:
            handed_over.offer(self.key, self.folder, self.index, text)
        return published


class _Nothing(Entry):
    """An entry that is always empty, for a cache that is off."""

    def __init__(self) -> None:
        self.folder = ""
        self.usable = False

    def read(self, on_broken: Callable[[str], None] | None = None) -> str | None:
        return None

    def discard(self, reason: str, on_broken: Any = None) -> None:
        pass


def takes_part(config: Config) -> bool:
    """Whether a compilation uses the cache. It does not if the user wants to see what
    the compiler does."""
    return (
        config.cache
        and config.dump is None
        and config.stop is None
        and not config.debug
        and not config.explain
    )


def keep_small(root: str) -> None:
    """Removes the entries that were used least recently, until the cache's limit holds."""
    try:
        _C.prune_cache(root, _C.cache_limit())
    except (OSError, ValueError) as error:
        warn_once("limit", str(error))


def constants_key(constants: list[tuple[str, str, Any]]) -> list[Any]:
    return [
        # Tensors that are not contiguous are copied, one at a time.
        (name, dtype, list(value.shape), _C.hash_tensor(value.contiguous()))
        for name, dtype, value in constants
    ]
