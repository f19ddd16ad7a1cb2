"""Runs packages that `anabranch.export` wrote, on NumPy arrays. Needs neither PyTorch
nor a compiler.

    package = anabranch_runtime.load("model.anb")
    result = package(array)

Inside, start with `native`. The modules that this package shares with
`anabranch.deploy` are links to them.

native         calls the C API of libanabranch_runtime through ctypes
array_package  calls a package with NumPy arrays, and keeps its state
arrays         passes NumPy arrays to programs and back
signature      names and nesting of a package's arguments and results
trees          nested arguments and results as JSON
tools          the command `anabranch-run`
__main__       prints where the C and C++ API is
"""

from __future__ import annotations

import os

from . import native
from .array_package import ArrayPackage as Package
from .signature import read_signature

__all__ = ["Package", "load", "prefix", "set_default_threads"]
__version__ = "0.1.0"


def load(
    path: str | os.PathLike[str],
    *,
    threads: int = 0,
    target: str | None = None,
    check_hashes: bool = True,
    trust: str | None = None,
) -> Package:
    """Opens a package that `anabranch.export` wrote.

    path          the package's folder
    threads       workers of a call; 0: one for each core, and no more than the CPU
                  quota of the container allows
    target        one of the package's processors; None: what ANABRANCH_TARGET says,
                  else the best that this CPU can run
    check_hashes  reads all weights once, and refuses a file that was changed
    trust         whose packages are opened: "user" (those of this user or root that
                  nobody else may write), "group" (also those that a group of this
                  process owns or may write, and links) or "anyone"; None: what
                  ANABRANCH_TRUST says, else "user"

    Returns an ArrayPackage, called with the arguments of the exported module.
    RuntimeError: there is no package, or this machine cannot run it. ValueError: the
    package was not exported.
    """
    folder = os.path.abspath(os.fspath(path))
    executable = native.Executable(folder, threads, check_hashes, target, trust)
    return Package(executable, read_signature(folder))


def set_default_threads(threads: int) -> None:
    """Workers of a call, for packages that `load` opened without a number. 0: the
    number that the environment sets."""
    native.library().anabranch_set_default_threads(threads)


def prefix() -> str:
    """The folder with bin/, include/ and lib/ of the C and C++ API, for CMake's
    CMAKE_PREFIX_PATH."""
    return os.path.dirname(os.path.abspath(__file__))
