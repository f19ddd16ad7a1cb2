"""The library of kernels for exact shapes, which processes and models share.

An entry is a package that was compiled for certain sizes, in the store of
docs/design/cache.md. Its text lists the operators and shapes that it was made for."""

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
class StaticPackage:
    """A package for exact shapes. `key` is its name in the library, empty if it could
    not be kept; `compiled` says whether this process compiled it."""

    folder: str
    key: str
    compiled: bool


@contextlib.contextmanager
def compile_static(
    described: Any,
    config: Any,
    binding: Mapping[str, int],
    records: Sequence[Any],
    *,
    anew: bool = False,
) -> Iterator[StaticPackage]:
    """The package of a graph for the sizes in `binding`, from the library or compiled
    now; with `anew`, compiled in any case, and not kept.

    Its folder exists inside the `with` block. If several processes ask for a package at
    once, one of them compiles it.
    """
    # imported here: the command `anabranch kernels` needs no compiler
    from . import package

    quiet = dataclasses.replace(
        config, dump=None, stop=None, progress=False, explain=False, debug=False
    )
    bindings = [dict(binding)] if binding else []
    parts = package.cache_key(described, quiet, bindings)
    key = cache.digest(cache.FORMAT, KERNELS, cache.identity(), parts)
    root = "" if anew else cache.folder()
    kept = cache.entry_folder(root, KERNELS, key) if root else ""
    entry = cache.Entry(kept, trust=quiet.trust) if root else None
    try:
        if entry and entry.read() is not None:
            yield StaticPackage(entry.folder, key, False)
            return
        with scratch.folder() as place:
            path = os.path.join(place, "package")
            if anew:
                package.write(described, quiet, path, bindings)
                yield StaticPackage(path, key, True)
                return
            _make(described, quiet, bindings, path)
            text = {
                "graph": described.graph["name"],
                "sizes": dict(binding),
                "made": time.strftime("%Y-%m-%d %H:%M:%S"),
                "operators": list(records),
            }
            if entry and entry.publish(path, {}, json.dumps(text)):
                cache.keep_small(root)
                yield StaticPackage(entry.folder, key, True)
            else:
                yield StaticPackage(path, "", True)
    finally:
        if entry is not None:
            entry.close()


def _make(described: Any, config: Any, bindings: list[Any], path: str) -> None:
    """Compiles the package, or copies it if the cache has the same one."""
    from . import package

    key = functools.partial(package.cache_key, described, config, bindings)
    with cache.package_entry(key, config) as made:
        if made.read() is not None:
            _copy(made.folder, path, made.index)
            return
    package.write(described, config, path, bindings)


# The command `anabranch kernels`


def entries() -> list[dict[str, Any]]:
    """The entries of the library, least recently used first."""
    root = _C.cache_folder()
    rows = _C.cache_entries(root) if root else []
    return [row for row in rows if row["kind"] == KERNELS]


def find(prefix: str) -> dict[str, Any]:
    """The entry whose key begins with `prefix`. ValueError: none, or several."""
    found = [row for row in entries() if row["key"].startswith(prefix)]
    if len(found) != 1 or not prefix:
        what = "no entry has" if not found else "several entries have"
        raise ValueError(f"{what} a key that begins with {prefix!r}")
    return found[0]


def text_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """The text of an entry; its hash is checked."""
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
    """Removes entries that were not used for this many days; all of them if `days` is
    None. Entries that a process is reading stay. Returns how many were removed."""
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


def copy_files(static: StaticPackage, target: str) -> None:
    """Copies the files of a static package, and its index if it has one."""
    _copy(static.folder, target)


def _copy(source: str, target: str, but: str = "") -> None:
    os.makedirs(target)
    for name in sorted(os.listdir(source)):
        path = os.path.join(source, name)
        if name != but and os.path.isfile(path):
            shutil.copyfile(path, os.path.join(target, name))
            os.chmod(os.path.join(target, name), 0o600)
