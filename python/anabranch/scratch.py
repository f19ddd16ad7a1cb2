"""Private folders for what is being compiled.

Each folder holds a locked file as long as its process lives. A process that makes such
a folder first removes the folders of processes that were killed."""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import shutil
import tempfile
from collections.abc import Iterator

from . import _C

PREFIX = "anabranch-"
LOCK = ".anabranch-lock"


@contextlib.contextmanager
def folder() -> Iterator[str]:
    """Makes a private folder and removes it after the block. OSError: no place can be
    written."""
    root = place()
    _sweep(root)
    path = tempfile.mkdtemp(prefix=PREFIX, dir=root)
    lock = -1
    try:
        # The lock file gets its name only when it is locked, so no other process can
        # find it unlocked.
        fresh = os.path.join(path, f"{LOCK}-new")
        lock = os.open(fresh, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.rename(fresh, os.path.join(path, LOCK))
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
        if lock >= 0:
            os.close(lock)


def place() -> str:
    """Where temporary files go. In a container whose root cannot be written, that is
    the folder of the cache."""
    try:
        return tempfile.gettempdir()
    except FileNotFoundError:
        root = _C.cache_folder()
    # The cache does not take a folder of this name for an entry.
    own = os.path.join(root, "tmp", "all", ".scratch")
    try:
        os.makedirs(own, 0o700, exist_ok=True)
    except OSError as error:
        raise OSError(
            "no folder for temporary files can be written: set TMPDIR or"
            f" ANABRANCH_CACHE_HOME to one that can ({error})"
        ) from error
    return own


@functools.cache
def _sweep(place: str) -> None:
    """Removes the folders of this user whose processes have ended."""
    with contextlib.suppress(OSError), os.scandir(place) as found:
        for entry in found:
            with contextlib.suppress(OSError):
                if entry.name.startswith(PREFIX) and _is_abandoned(entry):
                    shutil.rmtree(entry.path, ignore_errors=True)


def _is_abandoned(entry: os.DirEntry[str]) -> bool:
    about = entry.stat(follow_symlinks=False)
    if not entry.is_dir(follow_symlinks=False) or about.st_uid != os.geteuid():
        return False
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC
    lock = os.open(os.path.join(entry.path, LOCK), flags)  # an error without a lock
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # an error while it is held
        return True
    finally:
        os.close(lock)
