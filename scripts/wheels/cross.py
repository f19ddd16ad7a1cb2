"""The wheels for 64-bit Arm, cross-compiled on another machine."""

from __future__ import annotations

import shutil
from pathlib import Path

from . import debian
from .build import Build, manylinux
from .project import ROOT
from .pythons import Python

PLATFORM = manylinux("aarch64")
# Debian's LLVM, and CPython's headers, for 64-bit Arm. The tools are there for CMake's
# files of LLVM, which look for each one.
NEEDED = [
    *("libmlir-19-dev", "mlir-19-tools", "liblld-19-dev", "llvm-19-dev"),
    *("libzstd-dev", "zlib1g-dev", "libpython3.11-dev"),
]


def missing() -> str | None:
    """Why no wheel for 64-bit Arm can be made here."""
    if shutil.which("aarch64-linux-gnu-g++"):
        return None
    return "apt-get install g++-aarch64-linux-gnu"


def _configure(build: Build, *options: str) -> None:
    build.configure_again(
        f"-DCMAKE_TOOLCHAIN_FILE={ROOT}/cmake/aarch64.cmake",
        "-DANABRANCH_PYTHON=OFF",
        *options,
    )


def runtime_wheel(folder: Path) -> Path:
    build = Build(ROOT / "build-aarch64", [], PLATFORM)
    _configure(build, "-DANABRANCH_RUNTIME_ONLY=ON")
    build.compile()
    return build.runtime_wheel(folder)


def compiler_wheel(folder: Path, python: Path) -> Path:
    """The wheel for CPython 3.11. `python` has nanobind."""
    root = debian.kept("bookworm", *NEEDED, architecture="arm64")
    there = Python("3.11", python, root / "usr/include/python3.11")
    build = Build(ROOT / "build-aarch64-compiler", [there], PLATFORM)
    _configure(
        build,
        "-DANABRANCH_TESTS=OFF",
        f"-DANABRANCH_FOREIGN_ROOT={root}",
        f"-DANABRANCH_PYTHON_EXECUTABLE={python}",
    )
    build.compile()
    return build.compiler_wheel(there.tag, folder)
