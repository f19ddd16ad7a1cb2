"""Compiles models with the wheels of dist/, on each Python of this machine.

    run_pythons.py                        with the torch of the project
    run_pythons.py --torch 2.14.1,2.15.0  with each of these
    run_pythons.py --python 3.13 test/python/shapes   these tests on one Python

Each pair of a Python and a torch has an environment in .cache/pythons, which is kept:
pip installs torch there with all that it needs (some GiB if pip finds a build for
GPUs), and the wheel as a user does. The tests see the wheel and not the sources. The
exit status is 0 if every environment passed. `make test-python` calls this script."""

from __future__ import annotations

import argparse
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from wheels import pythons
from wheels.project import COMPILER, ROOT

# torch has wheels from this Python on.
FIRST = (3, 11)
NEEDED = ("numpy", "pytest", "pytest-xdist", "hypothesis", "expecttest", "psutil")
TESTS = (
    *("test/python/models", "test/python/shapes", "test/python/cache"),
    *("test/python/capture/test_capture.py", "test/python/capture/test_freeze.py"),
)
# pyproject.toml's paths without the sources of the package.
PATHS = (
    "test/repo test/repo/wheel test/repo/orders test/repo/aarch64"
    " test/python/support test/python/example_models"
)


@dataclass(frozen=True)
class Environment:
    """A venv with one torch."""

    python: pythons.Python
    torch: str

    def __str__(self) -> str:
        return f"CPython {self.python.version}, torch {self.torch}"

    @property
    def folder(self) -> Path:
        name = f"{self.python.version}-torch-{self.torch}"
        return ROOT / ".cache" / "pythons" / name

    @property
    def executable(self) -> Path:
        return self.folder / "bin" / "python"

    def prepare(self) -> None:
        """Makes the venv, once, and puts the newest wheel into it."""
        complete = self.folder / "complete"
        if not complete.exists():
            words = ["-m", "venv", "--clear", str(self.folder)]
            subprocess.run([str(self.python.executable), *words], check=True)
            self._pip(f"torch=={self.torch}", *NEEDED)
            complete.touch()
        wheels = ["--no-index", "--find-links", str(ROOT / "dist")]
        self._pip("--no-deps", "--force-reinstall", *wheels, COMPILER.name)

    def _pip(self, *words: str) -> None:
        command = [str(self.executable), "-m", "pip", "install", "-q", *words]
        subprocess.run(command, check=True)

    def passes(self, tests: list[str]) -> bool:
        command = [str(self.executable), "-m", "pytest", "-q", "-n2", "--dist=loadfile"]
        command += ["-o", f"pythonpath={PATHS}", "-p", "no:cacheprovider", *tests]
        return subprocess.run(command, cwd=ROOT, check=False).returncode == 0


def project_torch() -> str:
    """The version that requirements/constraints.txt names."""
    lines = (ROOT / "requirements" / "constraints.txt").read_text().splitlines()
    return next(line for line in lines if line.startswith("torch==")).split("==")[1]


def environments(versions: list[str], torches: list[str]) -> list[Environment]:
    """SystemExit: a version that this machine lacks."""
    found = {p.version: p for p in pythons.find()}
    usable = [v for v in found if tuple(map(int, v.split("."))) >= FIRST]
    for version in versions:
        if version not in usable:
            names = ", ".join(usable) or "none"
            sys.exit(f"CPython {version} is not here with its headers (found: {names})")
    chosen = [found[version] for version in versions or usable]
    return [Environment(python, torch) for torch in torches for python in chosen]


def _words(given: str) -> list[str]:
    return given.split(",")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tests", nargs="*", help="files or folders of tests")
    # Several are one word: tests may follow it.
    parser.add_argument("--python", type=_words, default=[], help="such as 3.13,3.14")
    parser.add_argument("--torch", type=_words, default=[project_torch()])
    given = parser.parse_args()
    outcomes = []
    for environment in environments(given.python, given.torch):
        print(f"==== {environment}", flush=True)
        try:
            environment.prepare()
            passed = environment.passes(given.tests or list(TESTS))
        except subprocess.CalledProcessError as error:
            print(error)
            passed = False
        outcomes.append((environment, passed))
    for environment, passed in outcomes:
        print(f"{environment}: {'passed' if passed else 'FAILED'}")
    return 0 if all(passed for _, passed in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
