"""Remembers which script with static kernels an earlier run of a build folder has
written, so that equal kernels get one script."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import platform
from collections.abc import Iterator
from pathlib import Path

from ..log import logger

__all__ = ["RunCache"]

_FOLDER = "static_kernel_cache"


class RunCache:
    """The table `static_kernel_cache/CANN-<version>_<device>.json` of a build folder:
    scripts by the key of their kernels. A host has no version of CANN: a key has
    everything that kernels depend on, the version of the compiler and the processor
    too."""

    def __init__(self, root: Path) -> None:
        self._root = root
        name = f"CANN-host_{platform.machine()}"
        self._table = root / _FOLDER / f"{name}.json"
        self._lock = root / _FOLDER / f"{name}.lock"

    def find(self, key: str) -> Path | None:
        """The script with the kernels, if it is still there."""
        script = self._root / self._read().get(key, "")
        return script if script.is_file() else None

    def keep(self, key: str, script: Path) -> None:
        """Notes that the script has the kernels."""
        self._table.parent.mkdir(exist_ok=True)
        with self._locked():
            rows = self._read() | {key: str(script.relative_to(self._root))}
            beside = self._table.with_suffix(f".{os.getpid()}.tmp")
            beside.write_text(json.dumps(rows, indent=2, sort_keys=True))
            beside.replace(self._table)

    def _read(self) -> dict[str, str]:
        """The table. One that is not there, or no table, is empty."""
        try:
            rows = json.loads(self._table.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            logger.warning("%s is read as an empty table: %s", self._table, error)
            return {}
        if not isinstance(rows, dict):
            logger.warning("%s is read as an empty table: it is none", self._table)
            return {}
        return {key: str(script) for key, script in rows.items()}

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """Keeps other processes from writing the table."""
        with self._lock.open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
