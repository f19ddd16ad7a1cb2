"""The wheels for 64-bit Arm run in an emulator, on CPython and NumPy for 64-bit Arm.
Packages that were exported on this machine give eager PyTorch's results there."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

from package_calls import CALL
from wheel_support import run, wheel_named
from wheels import cross, debian

EMULATOR = "qemu-aarch64-static"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not shutil.which(EMULATOR) or cross.missing() is not None,
        reason="qemu-user-static or g++-aarch64-linux-gnu is not installed",
    ),
]


@pytest.fixture(scope="module")
def root() -> Path:
    """CPython 3.11 of Debian for 64-bit Arm. NumPy needs libstdc++, Anabranch does not."""
    needed = ("python3.11", "libgcc-s1", "libstdc++6")
    return debian.kept("bookworm", *needed, architecture="arm64")


def installed(wheel: Path, folder: Path) -> Path:
    """The wheel, and this venv's version of NumPy, for 64-bit Arm. pip refuses a wheel
    whose tag does not fit."""
    pip = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "-q",
        "--no-deps",
        "--target",
        folder,
    ]
    pip += ["--disable-pip-version-check", "--only-binary", ":all:"]
    pip += ["--python-version", "3.11"]
    for glibc in range(17, 29):
        pip += ["--platform", f"manylinux_2_{glibc}_aarch64"]
    run(*pip, wheel, f"numpy=={np.__version__}")
    return folder


@pytest.fixture(scope="module")
def site(distributions: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    wheel = wheel_named(distributions, "anabranch_runtime-", "aarch64")
    return installed(wheel, tmp_path_factory.mktemp("aarch64") / "site")


def emulate(
    root: Path, *command: object, core: str = "neoverse-n1", **variables: str
) -> str:
    """Runs a program of 64-bit Arm, whose system is `root`."""
    environment = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", **variables}
    words = [EMULATOR, "-L", root, "-cpu", core, *command]
    return run(*words, cwd="/", env={**os.environ, **environment})


def test_runtime_wheel(root: Path, site: Path, exported: Path) -> None:
    python = root / "usr/bin/python3.11"
    arguments = (python, "-c", CALL, "anabranch_runtime", exported)
    assert emulate(root, *arguments, PYTHONPATH=str(site)) == "done\n"


def test_tool_of_the_wheel(
    root: Path, site: Path, exported: Path, tmp_path: Path
) -> None:
    tool = site / "anabranch_runtime/bin/anabranch-run"
    with np.load(exported / "0.npz") as kept:
        for name in ("x", "scale"):
            np.save(tmp_path / f"{name}.npy", kept[name])
        wanted = kept["y"]
    package = exported / "model.anb"
    inputs = (tmp_path / "x.npy", tmp_path / "scale.npy")
    emulate(root, tool, package, "--inputs", *inputs, "--output-dir", tmp_path)
    outputs = [np.load(path) for path in sorted(tmp_path.glob("output*.npy"))]
    same = [y for y in outputs if y.shape == wanted.shape]
    assert same
    np.testing.assert_allclose(same[0], wanted, atol=1e-6, rtol=1e-5)
    assert "workers" in emulate(root, tool, "--machine", core="max")
