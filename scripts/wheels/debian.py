"""Unpacks packages of Debian, of any suite and architecture, into a folder."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from .project import ROOT

KEYS = "/usr/share/keyrings/debian-archive-keyring.gpg"


def _output(*command: object) -> str:
    words = [str(word) for word in command]
    done = subprocess.run(
        words,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"debian: {' '.join(words)} failed:\n{done.stdout}")
    return done.stdout


def _archive() -> str:
    """The archive that this machine's packages come from, the one of updates apart."""
    found = _output("apt-get", "indextargets", "--format", "$(REPO_URI)").split()
    return next(place for place in found if place.rstrip("/").endswith("/debian"))


def unpack(root: Path, suite: str, *packages: str, architecture: str = "amd64") -> None:
    """Fills `root` with the packages and with what they need. They are not configured,
    and this machine's own packages stay as they are."""
    state = root.parent / f"{root.name}-apt"
    for name in ("lists/partial", "cache/archives/partial"):
        (state / name).mkdir(parents=True)
    root.mkdir()
    (state / "status").touch()
    source = f"deb [arch={architecture} signed-by={KEYS}] {_archive()} {suite} main\n"
    (state / "sources.list").write_text(source)
    settings = {
        "APT::Architecture": architecture,
        "APT::Architectures": architecture,
        "Dir::Etc::sourcelist": state / "sources.list",
        "Dir::Etc::sourceparts": "/dev/null",
        "Dir::State::lists": state / "lists",
        "Dir::State::status": state / "status",
        "Dir::Cache": state / "cache",
    }
    apt = ["apt-get", *(f"-o{name}={value}" for name, value in settings.items())]
    _output(*apt, "update")
    _output(*apt, "install", "-y", "-d", "--no-install-recommends", *packages)
    for package in sorted((state / "cache" / "archives").glob("*.deb")):
        unpacking = (
            f"dpkg-deb --fsys-tarfile {package} | tar -x --keep-directory-symlink"
        )
        _output("sh", "-c", f"{unpacking} -C {root}")
    shutil.rmtree(state)


def kept(suite: str, *packages: str, architecture: str) -> Path:
    """The folder of `unpack`, made once and kept in .cache/."""
    digest = hashlib.sha256(" ".join([suite, *packages]).encode()).hexdigest()[:8]
    place = ROOT / ".cache" / f"debian-{architecture}-{digest}"
    place.parent.mkdir(exist_ok=True)
    if not place.exists():
        with tempfile.TemporaryDirectory(dir=place.parent) as folder:
            unpack(Path(folder) / "root", suite, *packages, architecture=architecture)
            os.rename(Path(folder) / "root", place)
    return place
