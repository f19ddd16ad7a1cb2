"""Kernels made for exact shapes: a library that processes and models share.

An entry is a package that was compiled for certain sizes, in the store of
docs/design/cache.md; its text says of which operators and shapes it was made.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import os
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .. import _C, scratch
from . import cache
from .cache import KERNELS


@dataclasses.dataclass(frozen=True)
class Static:
    """A compiled package. `key` is its name in the library, empty where there is
    none; `compiled` says that this process made it."""

    folder: str
    key: str
    compiled: bool


@contextlib.contextmanager
def compile_static(
    described: Any, config: Any, binding: Mapping[str, int], records: Sequence[Any]
) -> Iterator[Static]:
    """The package of a graph for the sizes in `binding`: from the library, or
    compiled and put there. Of several processes that ask at once, one compiles.
    The folder is there inside of the `with`."""
    from . import package  # the command of the library needs no compiler

    quiet = dataclasses.replace(
        config, dump=None, stop=None, progress=False, explain=False, debug=False
    )
    bindings = [dict(binding)] if binding else []
    parts = package.cache_key(described, quiet, bindings)
    key = cache.digest(cache.FORMAT, KERNELS, cache.identity(), parts)
    root = cache.folder()
    kept = cache.entry_folder(root, KERNELS, key) if root else ""
    entry = cache.Entry(kept, trust=quiet.trust) if root else None
    try:
        if entry and entry.read() is not None:
            yield Static(entry.folder, key, False)
            return
        with scratch.folder() as place:
            path = os.path.join(place, "package")
            _make(described, quiet, bindings, path)
            text = {
                "graph": described.graph["name"],
                "sizes": dict(binding),
                "made": time.strftime("%Y-%m-%d %H:%M:%S"),
                "operators": list(records),
            }
            if entry and entry.publish(path, {}, json.dumps(text)):
                cache.keep_small(root)
                yield Static(entry.folder, key, True)
            else:
                yield Static(path, "", True)
    finally:
        if entry is not None:
            entry.close()


def _make(described: Any, config: Any, bindings: list[Any], path: str) -> None:
    """Compiles; what torch.compile has just compiled is copied."""
    from . import package

    key = functools.partial(package.cache_key, described, config, bindings)
    with cache.package_entry(key, config) as made:
        if made.read() is not None:
            _copy(made.folder, path, made.index)
            return
    package.write(described, config, path, bindings)


# The command `anabranch kernels`


def entries() -> list[dict[str, Any]]:
    """What is in the library, least recently used first."""
    root = _C.cache_folder()
    rows = _C.cache_entries(root) if root else []
    return [row for row in rows if row["kind"] == KERNELS]


def find(prefix: str) -> dict[str, Any]:
    """The entry whose key begins so."""
    found = [row for row in entries() if row["key"].startswith(prefix)]
    if len(found) != 1 or not prefix:
        what = "no entry has" if not found else "several entries have"
        raise ValueError(f"{what} a key that begins with {prefix!r}")
    return found[0]


def text_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """What an entry says of itself; hashes are checked."""
    entry = _C.CacheEntry(row["folder"])
    try:
        entry.lock(False, 1.0)
        text = entry.read()
    finally:
        entry.unlock()
    if text is None:
        raise ValueError(f"{row['key']} is gone")
    return json.loads(text)


def table() -> str:
    lines = []
    for row in entries():
        try:
            said = text_of(row)
        except (OSError, RuntimeError, ValueError) as error:
            lines.append(f"{row['key'][:12]}  broken: {error}")
            continue
        sizes = " ".join(f"{name}={size}" for name, size in said["sizes"].items())
        lines.append(
            f"{row['key'][:12]}  {row['bytes'] / 1024:8.0f} KiB  {said['made']}  "
            f"{len(said['operators']):4} operators  {said['graph']} {sizes}".rstrip()
        )
    return "\n".join([*lines, f"{len(lines)} entries"])


def show(prefix: str) -> str:
    row = find(prefix)
    return json.dumps({"key": row["key"]} | text_of(row), indent=2)


def prune(days: float | None = None) -> int:
    """Removes what was not used for so long; everything without `days`. Entries
    that someone reads stay. How many went."""
    gone = 0
    for row in entries():
        if days is not None and time.time() - row["last_use"] < days * 86400:
            continue
        entry = _C.CacheEntry(row["folder"])
        try:
            if entry.lock(True, 0.0):
                entry.remove()
                gone += 1
        finally:
            entry.unlock()
    return gone


def copy_files(static: Static, target: str) -> None:
    """The files of a static package, with its index where it has one."""
    _copy(static.folder, target)


def _copy(source: str, target: str, but: str = "") -> None:
    os.makedirs(target)
    for name in sorted(os.listdir(source)):
        path = os.path.join(source, name)
        if name != but and os.path.isfile(path):
            shutil.copyfile(path, os.path.join(target, name))
            os.chmod(os.path.join(target, name), 0o600)
