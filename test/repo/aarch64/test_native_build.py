"""pip compiles the runtime from the source archive on a Debian of 64-bit Arm, as it does on
this machine: nothing is told there that it crosses. `make test-aarch64` runs it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import arm_root
import pytest

from wheel_support import run

PYTHON = "/usr/bin/python3.11"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        "ANABRANCH_EMULATE" not in os.environ, reason="make test-aarch64 runs it"
    ),
    pytest.mark.skipif(arm_root.refusal() is not None, reason=arm_root.refusal() or ""),
]


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from wheels import sdist

    return sdist.write(tmp_path_factory.mktemp("sdist"))


@pytest.fixture(scope="module")
def needed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheels that pip takes from PyPI: what builds, and what is installed beside."""
    folder = tmp_path_factory.mktemp("needed")
    pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", folder]
    pip += ["--only-binary", ":all:", "--python-version", "3.11"]
    for glibc in range(17, 29):
        pip += ["--platform", f"manylinux_2_{glibc}_aarch64"]
    constraints = Path(__file__).parents[3] / "requirements/constraints.txt"
    run(*pip, "-c", constraints, "nanobind", "numpy")
    return folder


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from package_calls import export

    return export(tmp_path_factory.mktemp("exported"))


def install(root: Path, archive: Path, part: str, needed: Path, site: Path) -> None:
    """Installs a part of the archive into a folder of this machine."""
    pip = [PYTHON, "-m", "pip", "install", "-q", "--no-index"]
    pip += ["--find-links", f"/host{needed}", "--target", f"/host{site}"]
    pip += ["--config-settings", f"part={part}"]
    arm_root.enter(root, *pip, f"/host{archive}")


def test_runtime(archive: Path, needed: Path, exported: Path, tmp_path: Path) -> None:
    """It needs no LLVM, and calls packages that this machine exported."""
    from package_calls import CALL

    root = arm_root.make()
    install(root, archive, "runtime", needed, tmp_path / "site")
    words = (PYTHON, "-c", CALL, "anabranch_runtime", f"/host{exported}")
    path = f"/host{tmp_path}/site"
    assert arm_root.enter(root, *words, PYTHONPATH=path) == "done\n"
