"""Writes the source distribution: the files that git tracks, as one reproducible
archive."""

from __future__ import annotations

import calendar
import gzip
import io
import subprocess
import tarfile
from pathlib import Path

from .archive import entry_time
from .project import COMPILER, ROOT, metadata

# The set-up made or fetched these files; a build from the archive then needs no npm.
VENDORED = "python/anabranch/assets/vendor"
_MADE = ("build", "dist", ".venv", ".git", ".cache")


def source_files() -> list[Path]:
    """The paths relative to the root. An unpacked archive has no git, and all its files
    are source."""
    listing = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if listing.returncode == 0 and (ROOT / ".git").exists():
        names = {Path(name) for name in listing.stdout.split("\0") if name}
        found = {name for name in names if (ROOT / name).is_file()}
    else:
        every = (p.relative_to(ROOT) for p in ROOT.rglob("*") if p.is_file())
        found = {p for p in every if not _is_made(p)}
    extra = (ROOT / VENDORED).glob("*")
    return sorted(found | {p.relative_to(ROOT) for p in extra})


def _is_made(path: Path) -> bool:
    top = path.parts[0]
    made = top in _MADE or top.startswith("build-") or path.suffix in (".so", ".pyc")
    return made or path == Path("PKG-INFO")


def write(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{COMPILER.stem}.tar.gz"
    contents = io.BytesIO()
    with tarfile.open(fileobj=contents, mode="w", format=tarfile.PAX_FORMAT) as archive:
        _add(archive, "PKG-INFO", metadata(COMPILER, ["LICENSE"]).encode(), 0o644)
        for name in source_files():
            source = ROOT / name
            _add(archive, name.as_posix(), source.read_bytes(), source.stat().st_mode)
    path.write_bytes(gzip.compress(contents.getvalue(), mtime=0))
    return path


def _add(archive: tarfile.TarFile, name: str, data: bytes, mode: int) -> None:
    """Adds a regular file. For a link, it adds the contents of the file behind it."""
    entry = tarfile.TarInfo(f"{COMPILER.stem}/{name}")
    entry.size, entry.mode = len(data), 0o755 if mode & 0o100 else 0o644
    entry.mtime = calendar.timegm((*entry_time(), 0, 0, 0))
    archive.addfile(entry, io.BytesIO(data))
