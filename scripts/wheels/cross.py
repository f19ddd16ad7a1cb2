"""The wheels for 64-bit Arm, cross-compiled on another machine."""

from __future__ import annotations

import shutil
from pathlib import Path

from . import debian
from .build import Build, manylinux
from .project import ROOT
from .pythons import Python

PLATFORM = manylinux("aarch64")
# Debian's LLVM for 64-bit Arm. The tools are there for CMake's files of LLVM, which look
# for each one.
NEEDED = [
    *("libmlir-19-dev", "mlir-19-tools", "liblld-19-dev", "llvm-19-dev"),
    *("libzstd-dev", "zlib1g-dev", "libpython3.11-dev"),
]
# The suite of Debian that has the headers of a CPython. Those of 3.13 are for the stable
# ABI: a binding that asks for that of 3.12 finds no newer function in them.
SUITES = {"3.11": "bookworm", "3.13": "trixie"}


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


def _headers(version: str, python: Path, root: Path) -> Python:
    """A CPython for 64-bit Arm; `root` has LLVM and the headers of this Debian."""
    if SUITES[version] != "bookworm":
        package = f"libpython{version}-dev"
        root = debian.kept(SUITES[version], package, architecture="arm64")
    return Python(version, python, root / f"usr/include/python{version}")


def compiler_wheels(folder: Path, python: Path) -> list[Path]:
    """The wheels for CPython 3.11, and for 3.12 and later. `python` has nanobind."""
    root = debian.kept("bookworm", *NEEDED, architecture="arm64")
    found = [_headers(version, python, root) for version in SUITES]
    build = Build(ROOT / "build-aarch64-compiler", found, PLATFORM)
    _configure(
        build,
        "-DANABRANCH_TESTS=OFF",
        f"-DANABRANCH_FOREIGN_ROOT={root}",
        f"-DANABRANCH_PYTHON_EXECUTABLE={python}",
    )
    build.compile()
    return [build.compiler_wheel(binding, folder) for binding in build.bindings]
