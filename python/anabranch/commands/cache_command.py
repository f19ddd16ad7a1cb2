"""`anabranch cache`: lists, shows, verifies, prunes and exports entries of the cache."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from .. import _C
from ..packages.cache import (
    CHAT_PACKAGE,
    CHATS,
    FUNCTIONS,
    OBJECTS,
    ROUNDINGS,
    TUNINGS,
    Entry,
)

PACKAGE = ("manifest.json", "program.bin", "kernels.so", "constants.safetensors")
TRUST = "ANABRANCH_TRUST"
# The contents of entries whose kind has no name of its own.
NAMES = {TUNINGS: "blockings of products", ROUNDINGS: "quantised layers"}
Row = dict[str, Any]


def add_trust(parser: argparse.ArgumentParser) -> None:
    """Adds --trust, for commands that read packages or entries."""
    parser.add_argument(
        "--trust",
        choices=("user", "group", "anyone"),
        help="whose files are read; else what ANABRANCH_TRUST says, else the user's",
    )


@contextlib.contextmanager
def trusting(whom: str | None) -> Iterator[None]:
    """Inside the block, files of `whom` are read; None: as ANABRANCH_TRUST says."""
    before = os.environ.get(TRUST)
    if whom is not None:
        os.environ[TRUST] = whom
    try:
        yield
    finally:
        if before is not None:
            os.environ[TRUST] = before
        elif whom is not None:
            del os.environ[TRUST]


def add_parser(commands: Any) -> None:
    parser = commands.add_parser("cache", help="the cache of compiled packages")
    add_trust(parser)
    parser.add_argument("--root", help="its folder; else the one that is used")
    actions = parser.add_subparsers(dest="action", required=True)
    ls = actions.add_parser("ls", help="entries, those used last at the end")
    ls.add_argument("--json", action="store_true")
    show = actions.add_parser(
        "show", help="a cached function, or the listing of a package, as text"
    )
    show.add_argument("key", help="the beginning of its key")
    verify = actions.add_parser("verify", help="hashes every file; 1 if one is broken")
    verify.add_argument("--remove", action="store_true", help="what is broken")
    prune = actions.add_parser("prune", help="removes what was used least recently")
    prune.add_argument("--bytes", type=int, help="that may stay; else the limit")
    prune.add_argument("--all", action="store_true", help="nothing stays")
    export = actions.add_parser("export", help="an entry as a package to deploy")
    export.add_argument("key", help="the beginning of its key")
    export.add_argument("folder", help="the package's, which must not be there yet")


def run(given: argparse.Namespace) -> int:
    root = given.root or _C.cache_folder()
    if not root:
        raise ValueError("there is no cache folder: set ANABRANCH_CACHE_HOME")
    actions: dict[str, Callable[[str, argparse.Namespace], int]] = {
        "ls": _list,
        "show": _show,
        "verify": _verify,
        "prune": _prune,
        "export": _export,
    }
    return actions[given.action](root, given)


def _list(root: str, given: argparse.Namespace) -> int:
    every = [row | {"name": _name(row)} for row in _C.cache_entries(root)]
    if given.json:
        print(json.dumps(every, indent=1))
        return 0
    rows = [row for row in every if row["kind"] != OBJECTS]
    for row in rows:
        used = time.strftime("%Y-%m-%d %H:%M", time.localtime(row["last_use"]))
        size = f"{row['bytes'] / 2**10:.0f} KiB"
        print(f"{row['key'][:12]}  {row['kind']:<9} {size:>12}  {used}  {row['name']}")
    # Entries share large files.
    total = sum(row["added"] for row in rows) / 2**20
    print(f"{len(rows)} entries of {total:.1f} MiB in {root}")
    single = [row["added"] for row in every if row["kind"] == OBJECTS]
    if single:
        print(f"{len(single)} single kernels of {sum(single) / 2**20:.1f} MiB")
    return 0


def _name(row: Row) -> str:
    """The name that `ls` prints for an entry. Nothing is hashed for it."""
    try:
        if row["kind"] == FUNCTIONS:
            with open(os.path.join(row["folder"], "entry.json")) as file:
                index = file.read().rpartition("xxh128 ")[0]
            return json.loads(json.loads(index)["text"])["meta"]["name"]
        if row["kind"] in NAMES:
            return NAMES[row["kind"]]
        with open(os.path.join(_package_of(row), "manifest.json")) as file:
            return json.load(file)["name"]
    except (OSError, ValueError, KeyError, TypeError):
        return "?"


def _show(root: str, given: argparse.Namespace) -> int:
    row = _find(root, given.key)
    if row["kind"] == FUNCTIONS:
        from ..method_cache.entry_text import readable_cache

        readable_cache(row["folder"])
    elif row["kind"] == OBJECTS:
        raise ValueError("a single kernel has nothing to show")
    elif row["kind"] in NAMES:
        raise ValueError(f"{NAMES[row['kind']]} have nothing to show")
    else:
        print(_C.inspect(_package_of(row)))
    return 0


def _package_of(row: Row) -> str:
    folder = row["folder"]
    return os.path.join(folder, CHAT_PACKAGE) if row["kind"] == CHATS else folder


def _find(root: str, key: str) -> Row:
    found = [row for row in _C.cache_entries(root) if row["key"].startswith(key)]
    if len(found) != 1:
        count = len(found) or "no"
        raise ValueError(f"{count} entries of {root} have a key that begins with {key}")
    return found[0]


def _verify(root: str, given: argparse.Namespace) -> int:
    broken = 0
    rows = _C.cache_entries(root)
    for row in rows:
        reason = _problem(row["folder"])
        if not reason:
            continue
        broken += 1
        print(f"{row['folder']}: {reason}", file=sys.stderr)
        if given.remove:
            Entry(row["folder"]).remove()
    print(f"{len(rows) - broken} of {len(rows)} entries are whole")
    return 1 if broken and not given.remove else 0


def _problem(folder: str) -> str:
    """Why an entry is broken; empty if it is whole, or was removed meanwhile."""
    entry = _C.CacheEntry(folder)
    try:
        entry.lock(exclusive=False, seconds=10)
        entry.read()
    except (OSError, RuntimeError) as error:
        return str(error)
    return ""


def _prune(root: str, given: argparse.Namespace) -> int:
    limit = _C.cache_limit() if given.bytes is None else given.bytes
    if limit < 0:
        raise ValueError("a number of bytes can't be negative")
    done = _C.prune_cache(root, 0 if given.all else limit)
    print(
        f"removed {done['entries']} entries of {done['bytes']} bytes and"
        f" {done['litter']} leftovers; {done['kept']} bytes stay"
    )
    return 0


def _export(root: str, given: argparse.Namespace) -> int:
    """Copies the package of an entry. The copy's manifest has the hashes of its files,
    as the manifest of an exported package has."""
    row = _find(root, given.key)
    if row["kind"] == CHATS:
        # An exported package, whose manifest has the hashes already.
        shutil.copytree(_package_of(row), given.folder)
        print(given.folder)
        return 0
    entry = _C.CacheEntry(row["folder"])
    entry.lock(exclusive=False, seconds=10)
    if entry.read() is None:
        raise ValueError("the entry is gone")
    source = row["folder"]
    os.mkdir(given.folder, 0o700)
    for name in PACKAGE:
        if os.path.exists(os.path.join(source, name)):
            shutil.copy2(os.path.join(source, name), given.folder)
    path = os.path.join(given.folder, "manifest.json")
    with open(path) as file:
        manifest = json.load(file)
    for name, row in manifest["files"].items():
        with open(os.path.join(given.folder, name), "rb") as copy:
            row["hash"] = _C.hash_bytes(copy.read())
    with open(path, "w") as file:
        json.dump(manifest, file, indent=2)
    print(given.folder)
    return 0
