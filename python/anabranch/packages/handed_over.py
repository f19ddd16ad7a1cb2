"""Lets torch.compiler.save_cache_artifacts carry packages of the compile cache.

PyTorch's artefacts have a key and bytes. It reads them when it saves, and loading writes
them under its own cache folder. There a compilation without an entry finds its package,
and puts it into the compile cache."""

from __future__ import annotations

import io
import os
import sys
import tarfile
from collections.abc import Callable

from .. import scratch

# The type of artefact that AOTAutograd registers. Loading PyTorch's bytes in a process
# that has not imported Anabranch fails as a whole if they have another type.
TYPE = "aot_autograd"
PREFIX = "anabranch-"
TEXT = "entry-text.json"

_offered: set[str] = set()


def offer(key: str, folder: str, index: str, text: str) -> None:
    """Adds the package in the entry `folder` to what PyTorch saves. `text` is the text
    of the entry, in its file `index`."""
    if key in _offered:
        return
    from torch.compiler._cache import CacheArtifactManager

    _offered.add(key)
    made = _artefact_type()(key, lambda: _packed(folder, index, text))
    CacheArtifactManager._new_cache_artifacts[TYPE].append(made)


def find(key: str, publish: Callable[[str, str], bool]) -> str | None:
    """The text of the package that PyTorch loaded under this key, if there is one.
    `publish(folder, text)` keeps it."""
    content = _loaded(key)
    if content is None:
        return None
    with scratch.folder() as place:
        folder = os.path.join(place, "package")
        text = _unpack(content, folder)
        return text if publish(folder, text) else None


def _artefact_type() -> type:
    from torch._functorch._aot_autograd.autograd_cache import AOTAutogradCacheArtifact

    class Package(AOTAutogradCacheArtifact):
        """A package, which is read when PyTorch saves it."""

        def __init__(self, key: str, read: Callable[[], bytes]) -> None:
            object.__setattr__(self, "key", PREFIX + key)
            object.__setattr__(self, "read", read)

        @property
        def content(self) -> bytes:  # type: ignore[override]
            return self.read()  # type: ignore[attr-defined]

    return Package


def _packed(folder: str, index: str, text: str) -> bytes:
    """The files of an entry as one; nothing if the entry is gone."""
    bytes_ = io.BytesIO()
    try:
        with tarfile.open(fileobj=bytes_, mode="w") as archive:
            for name in sorted(os.listdir(folder)):
                path = os.path.join(folder, name)
                if name != index and os.path.isfile(path):
                    archive.add(path, name, recursive=False)
            about = tarfile.TarInfo(TEXT)
            about.size = len(text.encode())
            archive.addfile(about, io.BytesIO(text.encode()))
    except OSError:
        return b""
    return bytes_.getvalue()


def _loaded(key: str) -> bytes | None:
    """The bytes that PyTorch keeps under this key. A file that is not whole does not
    have the hash that is its name."""
    if "torch" not in sys.modules:
        return None
    from torch._inductor.runtime.cache_dir_utils import cache_dir

    folder = os.path.join(cache_dir(), "aotautograd", PREFIX + key)
    if not os.path.isdir(folder):
        return None
    for name in os.listdir(folder):
        with open(os.path.join(folder, name), "rb") as file:
            content = file.read()
        if content and _name_of(content) == name:
            return content
    return None


def _name_of(content: bytes) -> str:
    from torch._inductor.codecache import sha256_hash

    return sha256_hash(content)


def _unpack(content: bytes, folder: str) -> str:
    """Writes the files of a package; returns the text of its entry."""
    os.makedirs(folder, 0o700)
    text = ""
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        for member in archive:
            file = archive.extractfile(member)
            if file is None or os.path.basename(member.name) != member.name:
                raise OSError(f"an artefact has the file {member.name!r}")
            if member.name == TEXT:
                text = file.read().decode()
                continue
            with open(os.path.join(folder, member.name), "wb") as copy:
                copy.write(file.read())
    return text
