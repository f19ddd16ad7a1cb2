"""Runs packages on emulated cores of 64-bit Arm, with an anabranch-run that is built
for them from the sources."""

from __future__ import annotations

import fcntl
import functools
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch

ROOT = Path(__file__).resolve().parents[3]
EMULATOR = "qemu-aarch64-static"
LIBRARIES = "/usr/aarch64-linux-gnu"
BUILD = ROOT / "build-aarch64"

needed = pytest.mark.skipif(
    not shutil.which(EMULATOR) or not shutil.which("aarch64-linux-gnu-g++"),
    reason="qemu-user-static or the cross compiler is not installed",
)


def _run(*command: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, check=False
    )


def _succeed(*command: str | Path) -> None:
    done = _run(*command)
    assert done.returncode == 0, done.stdout + done.stderr


@functools.cache
def runner() -> Path:
    """anabranch-run for 64-bit Arm. Processes that test side by side build it once."""
    BUILD.mkdir(exist_ok=True)
    with open(BUILD / "tests.lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        _succeed(
            *("cmake", "-G", "Ninja", "-S", ROOT, "-B", BUILD),
            f"-DCMAKE_TOOLCHAIN_FILE={ROOT}/cmake/aarch64.cmake",
            "-DANABRANCH_RUNTIME_ONLY=ON",
            "-DANABRANCH_PYTHON=OFF",
        )
        _succeed("ninja", "-C", BUILD, "-j2", "anabranch-run")
    return BUILD / "bin" / "anabranch-run"


def emulate(core: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """anabranch-run with these arguments on this core."""
    return _run(EMULATOR, "-L", LIBRARIES, "-cpu", core, runner(), *arguments)


def run_package(
    package: Path, inputs: Sequence[torch.Tensor], folder: Path, core: str
) -> list[torch.Tensor]:
    """The results of one call of the package. `folder` keeps them as output0.npy, ..."""
    files = [folder / f"in{number}.npy" for number in range(len(inputs))]
    for file, value in zip(files, inputs, strict=True):
        np.save(file, value.numpy())
    given = ["--inputs", *files] if files else []
    done = emulate(core, package, *given, "--output-dir", folder, "--threads", "2")
    assert done.returncode == 0, done.stderr
    lines = re.findall(r"^output (\d+): (input (\d+))?", done.stdout, re.MULTILINE)
    # The runner writes no file of a result that is an input.
    return [
        inputs[int(same)]
        if is_input
        else torch.from_numpy(np.load(folder / f"output{number}.npy"))
        for number, is_input, same in lines
    ]
