"""Checks for the packages that compiling needs besides Python: LLVM 19 and others of
Debian."""

from __future__ import annotations

import platform
import shutil
from pathlib import Path

MACHINES = ("x86_64", "aarch64")
# Each package, with a file or a program that it installs: what the runtime needs, and
# what the compiler needs besides.
RUNTIME = {
    "clang-19": "clang++-19",
    "lld-19": "/usr/lib/llvm-19/bin/ld.lld",
    "flatbuffers-compiler": "flatc",
    "libflatbuffers-dev": "/usr/include/flatbuffers/flatbuffers.h",
    "nlohmann-json3-dev": "/usr/include/nlohmann/json.hpp",
    "libxxhash-dev": "/usr/include/xxhash.h",
    "build-essential": "readelf",
    "cmake": "cmake",
    "ninja-build": "ninja",
}
COMPILER = {
    "llvm-19-dev": "/usr/lib/llvm-19/lib/cmake/llvm/LLVMConfig.cmake",
    "libmlir-19-dev": "/usr/lib/llvm-19/lib/cmake/mlir/MLIRConfig.cmake",
    "mlir-19-tools": "/usr/lib/llvm-19/bin/mlir-tblgen",
    "liblld-19-dev": "/usr/lib/llvm-19/lib/liblldELF.a",
    "zlib1g-dev": "/usr/include/zlib.h",
    "libzstd-dev": "/usr/include/zstd.h",
}


def missing_packages(needed: dict[str, str]) -> list[str]:
    return [
        package
        for package, what in needed.items()
        if not (Path(what).exists() if what[0] == "/" else shutil.which(what))
    ]


def refusal(part: str) -> str | None:
    """Why the compiler or the runtime cannot be compiled here, and what to do. None:
    everything is there."""
    if platform.system() != "Linux" or platform.machine() not in MACHINES:
        return (
            "Anabranch runs on Linux on x86-64 and 64-bit Arm only; this is "
            f"{platform.system()} on {platform.machine()}"
        )
    missing = missing_packages(RUNTIME if part == "runtime" else RUNTIME | COMPILER)
    if not missing:
        return None
    return (
        "Anabranch cannot be compiled here: LLVM 19 or other tools are missing.\n"
        "Debian 12 or newer has them:\n"
        f"    apt-get install {' '.join(missing)}\n"
        "A wheel needs none of them: `make wheel` in a checkout makes it on a Debian "
        "machine, for any Linux with glibc 2.28 or newer."
    )
