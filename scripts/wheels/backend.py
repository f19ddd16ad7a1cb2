"""The build backend of pyproject.toml (PEP 517): `pip install .` and sdists.

A wheel is compiled for the Python that asks: in build/, or in build-pip/ where a
developer's build is.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from . import pythons, sdist, toolchain
from .build import PLATFORM, Build, info_files
from .project import COMPILER, ROOT
from .pythons import Python

Settings = dict[str, Any] | None


def _this_python() -> Python:
    if reason := toolchain.refusal():
        raise SystemExit(f"\n{reason}\n")
    python = pythons.ask(Path(sys.executable))
    if python is None or python.version not in pythons.SUPPORTED:
        raise SystemExit(
            f"\nAnabranch needs CPython {', '.join(pythons.SUPPORTED[:-1])} or "
            f"{pythons.SUPPORTED[-1]} with its headers; {sys.executable} is none\n"
        )
    return python


def get_requires_for_build_wheel(config_settings: Settings = None) -> list[str]:
    """Refuses a build before anything is downloaded or compiled, if a package is
    missing."""
    _this_python()
    return []


def prepare_metadata_for_build_wheel(
    metadata_directory: str, config_settings: Settings = None
) -> str:
    tag = f"{pythons.wheel_tag(_this_python().tag)}-{PLATFORM}"
    folder = Path(metadata_directory) / COMPILER.info
    for name, text in info_files(COMPILER, tag).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder.name


def _build_folder() -> Path:
    """The folder of the build. pip removes its Python and nanobind afterwards, so a
    developer's build must not refer to them."""
    for folder in (ROOT / "build", ROOT / "build-pip"):
        mark = folder / "made-by-pip"
        if mark.exists() or not (folder / "CMakeCache.txt").exists():
            break
    folder.mkdir(exist_ok=True)
    mark.touch()
    return folder


def build_wheel(
    wheel_directory: str,
    config_settings: Settings = None,
    metadata_directory: str | None = None,
) -> str:
    python = _this_python()
    build = Build(_build_folder(), [python])
    build.configure_again(
        "-DCMAKE_C_COMPILER=clang-19",
        "-DCMAKE_CXX_COMPILER=clang++-19",
        "-DANABRANCH_TESTS=OFF",
        "-DANABRANCH_PYTHON=OFF",
        f"-DANABRANCH_PYTHON_EXECUTABLE={sys.executable}",
    )
    build.compile()
    return build.compiler_wheel(python.tag, Path(wheel_directory)).name


def build_sdist(sdist_directory: str, config_settings: Settings = None) -> str:
    return sdist.write(Path(sdist_directory)).name
