"""The build backend of pyproject.toml (PEP 517): `pip install .` and sdists.

A wheel is compiled for the Python that asks: in build/, or in build-pip/ where a
developer's build is. `pip install --config-settings part=runtime .` makes the wheel of
the runtime, which needs no LLVM.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from . import pythons, sdist, toolchain
from .build import PLATFORM, Build, info_files
from .project import COMPILER, ROOT, RUNTIME
from .pythons import Python

Settings = dict[str, Any] | None


PARTS = {"compiler": COMPILER, "runtime": RUNTIME}


def _part(settings: Settings) -> str:
    part = (settings or {}).get("part", "compiler")
    if part not in PARTS:
        raise SystemExit(f"\npart={part}: the parts are {' and '.join(PARTS)}\n")
    return part


def _this_python(part: str) -> Python:
    if reason := toolchain.refusal(part):
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
    _this_python(_part(config_settings))
    return []


def prepare_metadata_for_build_wheel(
    metadata_directory: str, config_settings: Settings = None
) -> str:
    part = _part(config_settings)
    python = _this_python(part)
    own = "py3-none" if part == "runtime" else pythons.wheel_tag(python.tag)
    folder = Path(metadata_directory) / PARTS[part].info
    for name, text in info_files(PARTS[part], f"{own}-{PLATFORM}").items():
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
    part = _part(config_settings)
    python, alone = _this_python(part), part == "runtime"
    build = Build(_build_folder(), [] if alone else [python])
    build.configure_again(
        "-DCMAKE_C_COMPILER=clang-19",
        "-DCMAKE_CXX_COMPILER=clang++-19",
        "-DANABRANCH_TESTS=OFF",
        "-DANABRANCH_PYTHON=OFF",
        f"-DANABRANCH_RUNTIME_ONLY={'ON' if alone else 'OFF'}",
        f"-DANABRANCH_PYTHON_EXECUTABLE={sys.executable}",
    )
    build.compile()
    wheels = Path(wheel_directory)
    made = (
        build.runtime_wheel(wheels)
        if alone
        else build.compiler_wheel(python.tag, wheels)
    )
    return made.name


def build_sdist(sdist_directory: str, config_settings: Settings = None) -> str:
    return sdist.write(Path(sdist_directory)).name
