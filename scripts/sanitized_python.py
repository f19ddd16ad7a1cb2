"""Builds the libraries and Python's binding with the address sanitizer, beside those of
the checkout.

MLIR and LLVM stay as they are: a container that both they and Anabranch write is not
checked. Compiled kernels are not instrumented; tests put their memory between pages that
fault."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build-python-address"
CHECKS = (
    "detect_leaks=0",  # an interpreter leaves memory behind
    "detect_container_overflow=0",  # LLVM does not mark its containers
    "detect_odr_violation=0",  # the two libraries share rooms
    "allocator_may_return_null=1",  # a test asks for more memory than there is
    "handle_segv=0",  # tests catch faults at guard pages in a child
    "quarantine_size_mb=16",  # a test asks whether a process grows
    "allow_user_poisoning=0",  # LLVM's allocators poison in inline functions alone
)


def environment() -> dict[str, str]:
    """Builds what is missing. The variables under which a Python process uses it."""
    package = BUILD / "python" / "anabranch"
    _link_sources(package)
    if not (BUILD / "build.ninja").exists():
        _configure(package)
    subprocess.run(
        ["ninja", "-C", BUILD, "-j2", "anabranch_compiler", "_C"], check=True
    )
    return {
        "ASAN_OPTIONS": ":".join(CHECKS),
        # The sanitizer opens libraries for the binding, and has another RUNPATH.
        "LD_LIBRARY_PATH": str(BUILD / "lib"),
        "LD_PRELOAD": _sanitizer(),
        "PYTHONPATH": os.pathsep.join(
            [str(package.parent), str(ROOT / "torchair-compat")]
        ),
    }


def _link_sources(package: Path) -> None:
    """A folder with the package's sources, in which another binding lies."""
    package.mkdir(parents=True, exist_ok=True)
    for source in (ROOT / "python" / "anabranch").iterdir():
        link = package / source.name
        if source.suffix != ".so" and not link.is_symlink():
            link.symlink_to(source)


def _configure(package: Path) -> None:
    options = {
        "CMAKE_C_COMPILER": "clang-19",
        "CMAKE_CXX_COMPILER": "clang++-19",
        "ANABRANCH_PYTHON_EXECUTABLE": sys.executable,
        "ANABRANCH_PYTHON_FOLDER": package,
        "ANABRANCH_SANITIZE": "address",
        "ANABRANCH_TESTS": "OFF",
    }
    given = [f"-D{name}={value}" for name, value in options.items()]
    subprocess.run(["cmake", "-G", "Ninja", "-B", BUILD, *given], check=True)


def _sanitizer() -> str:
    """The sanitizer's library. The process must load it before all others."""
    command = ["clang-19", "-print-file-name=libclang_rt.asan-x86_64.so"]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout.strip()
