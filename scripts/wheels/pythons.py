"""The Pythons of this machine that a binding can be compiled for."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

SUPPORTED = ("3.10", "3.11", "3.12", "3.13", "3.14")
# From this version on, one binding for the stable ABI serves all versions.
FIRST_STABLE = "3.12"
_ASK = (
    "import sys, sysconfig;"
    "print(sys.executable, '%d.%d' % sys.version_info[:2], sys.implementation.name,"
    " sysconfig.get_path('include'), sep='\\n')"
)


@dataclass
class Python:
    """An interpreter with its headers."""

    version: str  # "3.11"
    executable: Path
    include: Path

    @property
    def tag(self) -> str:
        """The tag of the binding: "cp311", or "abi3" for the stable ABI."""
        stable = _number(self.version) >= _number(FIRST_STABLE)
        return "abi3" if stable else "cp" + self.version.replace(".", "")


def wheel_tag(binding: str) -> str:
    """The first two parts of a wheel's tag."""
    if binding == "abi3":
        return f"cp{FIRST_STABLE.replace('.', '')}-abi3"
    return f"{binding}-{binding}"


def _number(version: str) -> int:
    return int(version.split(".")[1])


def _candidates(version: str) -> list[Path]:
    """Interpreters on the path, then those of pyenv, the newest patch first."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    found = list((pyenv / "versions").glob(f"{version}.*/bin/python{version}"))
    found.sort(key=lambda p: int("0" + "".join(filter(str.isdigit, p.parts[-3][4:]))))
    on_path = shutil.which(f"python{version}")
    return [*([Path(on_path)] if on_path else []), *reversed(found)]


def ask(executable: Path) -> Python | None:
    """The interpreter; None if this is no CPython with headers."""
    done = subprocess.run(
        [str(executable), "-c", _ASK], capture_output=True, text=True, check=False
    )
    if done.returncode:
        return None
    path, version, kind, include = done.stdout.splitlines()
    if kind != "cpython" or not (Path(include) / "Python.h").exists():
        return None
    return Python(version, Path(path), Path(include))


def find() -> list[Python]:
    """One interpreter of each supported version that this machine has."""
    found = []
    for version in SUPPORTED:
        answers = (ask(candidate) for candidate in _candidates(version))
        fitting = (p for p in answers if p and p.version == version)
        if python := next(fitting, None):
            found.append(python)
    return found


def by_binding(pythons: list[Python]) -> dict[str, Python]:
    """For each binding, the Python that compiles it: the oldest one that it serves."""
    bindings: dict[str, Python] = {}
    for python in sorted(pythons, key=lambda p: _number(p.version)):
        bindings.setdefault(python.tag, python)
    return bindings
