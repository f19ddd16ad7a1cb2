"""Compiles the files of the wheels, and packs them."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
from pathlib import Path

from . import licences, pythons, steps
from .archive import Archive
from .project import (
    COMPILER,
    ROOT,
    RUNTIME,
    Distribution,
    entry_points,
    metadata,
    wheel_file,
)
from .pythons import Python


def manylinux(machine: str) -> str:
    """A test checks the symbols: no file needs a function that glibc 2.28 lacks."""
    return f"manylinux_2_28_{machine}"


PLATFORM = manylinux(platform.machine())


def _environment() -> dict[str, str]:
    """Builds in other folders share the entries of ccache."""
    return {**os.environ, "CCACHE_BASEDIR": str(ROOT), "CCACHE_NOHASHDIR": "1"}


def _run(*command: object) -> None:
    words = [str(word) for word in command]
    done = subprocess.run(
        words,
        cwd=ROOT,
        env=_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"wheels: {' '.join(words)} failed:\n{done.stdout}")


class Build:
    """A build folder for a machine, and the parts of wheels that it has. Without a Python
    it has the runtime alone."""

    def __init__(
        self, folder: Path, found: list[Python], platform_tag: str = PLATFORM
    ) -> None:
        self.folder = folder
        self.bindings = pythons.by_binding(found)
        self.platform_tag = platform_tag
        self.staging = folder / "wheel" / "staging"

    def _setting(self) -> str:
        pairs = [f"{tag}={p.include}" for tag, p in sorted(self.bindings.items())]
        return f"ANABRANCH_WHEEL_PYTHONS={';'.join(pairs)}"

    def configure(self) -> None:
        """Configures the folder, unless it is configured for these Pythons."""
        cache = (self.folder / "CMakeCache.txt").read_text(encoding="utf-8")
        name, wanted = self._setting().split("=", 1)
        known = re.search(rf"^{name}:\w+=(.*)$", cache, re.MULTILINE)
        if not known or known[1] != wanted:
            self.configure_again()

    def configure_again(self, *options: str) -> None:
        setting = f"-D{self._setting()}"
        _run("cmake", "-G", "Ninja", "-B", self.folder, *options, setting)

    def compile(self) -> None:
        jobs = str(min(len(os.sched_getaffinity(0)), 8))
        ninja = ["ninja", "-C", str(self.folder), "-j", jobs, "wheel_parts"]
        steps.run(ninja, str(ROOT), _environment())
        shutil.rmtree(self.staging, ignore_errors=True)
        compiler = ["compiler", *self.bindings] if self.bindings else []
        for part in ("runtime", *compiler):
            _run(
                *("cmake", "--install", self.folder, "--component", f"wheel_{part}"),
                *("--prefix", self.staging / part),
            )

    def compiler_wheel(self, binding: str, folder: Path) -> Path:
        tag = f"{pythons.wheel_tag(binding)}-{self.platform_tag}"
        wheel = _open(COMPILER, tag, folder)
        _add_modules(wheel, "anabranch")
        for part in ("compiler", binding):
            wheel.add_tree(self.staging / part, "anabranch/")
        return _close(wheel, COMPILER, tag)

    def runtime_wheel(self, folder: Path) -> Path:
        tag = f"py3-none-{self.platform_tag}"
        wheel = _open(RUNTIME, tag, folder)
        _add_modules(wheel, "anabranch_runtime")
        wheel.add_tree(self.staging / "runtime", "anabranch_runtime/")
        return _close(wheel, RUNTIME, tag)


def _open(distribution: Distribution, tag: str, folder: Path) -> Archive:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{distribution.stem}-{tag}.whl"
    return Archive(path, distribution.info)


def _add_modules(wheel: Archive, package: str) -> None:
    """Adds the Python files, and the assets of the report's page."""
    root = ROOT / "python"
    folder = root / package
    modules = [p for p in folder.rglob("*.py*") if p.suffix in (".py", ".pyi")]
    assets = [p for p in (folder / "assets").rglob("*") if p.is_file()]
    for path in [*modules, *assets]:
        wheel.add(path.relative_to(root).as_posix(), path.read_bytes())


def info_files(distribution: Distribution, tag: str) -> dict[str, str]:
    """The files of the dist-info folder, except RECORD."""
    texts = licences.texts(distribution)
    files = {f"licenses/{name}": text for name, text in texts.items()}
    files["METADATA"] = metadata(distribution, sorted(texts))
    files["WHEEL"] = wheel_file(distribution, [tag])
    files["entry_points.txt"] = entry_points(distribution)
    return files


def _close(wheel: Archive, distribution: Distribution, tag: str) -> Path:
    for name, text in info_files(distribution, tag).items():
        wheel.add(f"{distribution.info}/{name}", text.encode())
    wheel.close()
    return wheel.path
