"""Writes a shell script that carries static kernels and installs them."""

from __future__ import annotations

import io
import os
import tarfile
import tempfile
from pathlib import Path

from anabranch.extension import StaticPackage, copy_package

_SCRIPT = """#!/bin/sh
# Static kernels of Anabranch. Run it to put them into the library of this user,
# or with a folder to put them there.
set -e
cache="${{XDG_CACHE_HOME:-$HOME/.cache}}/anabranch"
target="${{1:-${{ANABRANCH_CACHE_HOME:-$cache}}}}"
umask 077
mkdir -p "$target/{parent}"
scratch=$(mktemp -d "$target/{parent}/.tmp-XXXXXX")
trap 'rm -rf "$scratch"' EXIT
tail -n +{skip} "$0" | tar -x -z -C "$scratch"
if [ -e "$target/{place}" ]; then
  echo "already there: $target/{place}"
else
  mv "$scratch/package" "$target/{place}"
  echo "installed: $target/{place}"
fi
exit 0
"""


def write_run(path: Path, made: StaticPackage) -> None:
    """Writes the script to a temporary file and renames it, so that no reader sees half
    of it."""
    name = made.key or "unnamed"
    parent = f"kernels/{name[:2]}"
    words = {"parent": parent, "place": f"{parent}/{name}"}
    lines = _SCRIPT.format(skip=0, **words).count("\n")
    script = _SCRIPT.format(skip=lines + 1, **words)
    payload = io.BytesIO()
    with tempfile.TemporaryDirectory() as scratch:
        copy = os.path.join(scratch, "package")
        copy_package(made, copy)
        with tarfile.open(fileobj=payload, mode="w:gz") as archive:
            archive.add(copy, "package")
    beside = path.with_suffix(".tmp")
    beside.write_bytes(script.encode() + payload.getvalue())
    beside.chmod(0o700)
    beside.replace(path)
