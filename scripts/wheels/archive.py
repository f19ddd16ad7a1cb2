"""Writes a wheel: sorted entries with one time, and their RECORD."""

from __future__ import annotations

import base64
import hashlib
import os
import time
import zipfile
from pathlib import Path


def entry_time() -> tuple[int, int, int, int, int, int]:
    """SOURCE_DATE_EPOCH, or a fixed day without it."""
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    if not epoch:
        return (2026, 1, 1, 0, 0, 0)
    # A zip file has no times before 1980.
    return time.gmtime(max(int(epoch), 315532800))[:6]


class Archive:
    """Keeps entries until `close`, which sorts them. So equal contents give equal
    bytes."""

    def __init__(self, path: Path, info: str) -> None:
        self.path, self.info = path, info
        self.entries: dict[str, tuple[bytes, int]] = {}

    def add(self, name: str, data: bytes, mode: int = 0o644) -> None:
        self.entries[name] = (data, 0o755 if mode & 0o100 else 0o644)

    def add_tree(self, folder: Path, under: str = "") -> None:
        for path in sorted(p for p in folder.rglob("*") if p.is_file()):
            name = f"{under}{path.relative_to(folder).as_posix()}"
            self.add(name, path.read_bytes(), path.stat().st_mode)

    def _ordered(self) -> list[str]:
        """The entries in order: the dist-info folder last, as installers prefer, and
        RECORD at its end."""
        last = f"{self.info}/RECORD"
        return sorted(
            self.entries, key=lambda n: (n.startswith(self.info), n == last, n)
        )

    def close(self) -> None:
        record = f"{self.info}/RECORD"
        lines = []
        for name in self._ordered():
            data = self.entries[name][0]
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest())
            lines.append(f"{name},sha256={digest.decode().rstrip('=')},{len(data)}")
        self.add(record, "\n".join([*lines, f"{record},,"]).encode() + b"\n")
        with zipfile.ZipFile(self.path, "w", zipfile.ZIP_DEFLATED) as archive:
            for name in self._ordered():
                data, mode = self.entries[name]
                entry = zipfile.ZipInfo(name, entry_time())
                entry.external_attr = (0o100000 | mode) << 16
                entry.compress_type = zipfile.ZIP_DEFLATED
                entry.create_system = 3
                archive.writestr(entry, data)
