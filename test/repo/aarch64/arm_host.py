"""A host of 64-bit Arm with the compiler's wheel and PyTorch, in an emulator.

It is made in .cache/ once, from Debian's CPython, wheels of PyPI for 64-bit Arm, and
the packages of this venv that have no machine code."""

from __future__ import annotations

import fcntl
import hashlib
import importlib.metadata
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import cuda_stubs

from repository import ROOT
from wheel_support import run
from wheels import debian

EMULATOR = "qemu-aarch64-static"
CACHE = ROOT / ".cache"
SITE, STUBS, LAUNCHER = (CACHE / f"arm-{name}" for name in ("site", "stubs", "python"))
SYSTEM = ("python3.11", "libgcc-s1", "libstdc++6")
CPUS = 2
# Packages with machine code that tests and models need there.
BINARY = ("numpy", "safetensors", "tokenizers", "regex", "pyyaml", "markupsafe")
MORE_BINARY = ("hf-xet", "psutil", "hypothesis", "scipy")
NOT_THERE = {"anabranch", "torch", "pip", "setuptools"}

# PyTorch's libraries look there for the kind of the core.
CORE = "0x00000000411fd401\n"
CPU_INFO = """processor\t: {number}
BogoMIPS\t: 2100.00
Features\t: fp asimd fphp asimdhp asimdrdm atomics crc32 lrcpc asimddp sve i8mm bf16
CPU implementer\t: 0x41
CPU architecture: 8
CPU variant\t: 0x1
CPU part\t: 0xd40
CPU revision\t: 1

"""
# A program starts its children in the emulator too. PyTorch's CUDA would ask a stub.
STARTUP = """import os
import sys

sys.executable = os.environ["EMULATED_PYTHON"]

import torch

torch.cuda.is_current_stream_capturing = lambda: False
"""


def describe_cpus(root: Path) -> None:
    """Writes the files of a Neoverse V1 into the root: the emulator shows those of this
    machine."""
    (root / "proc").mkdir(exist_ok=True)
    pages = (CPU_INFO.format(number=number) for number in range(CPUS))
    (root / "proc/cpuinfo").write_text("".join(pages))
    for number in range(CPUS):
        folder = root / f"sys/devices/system/cpu/cpu{number}/regs/identification"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "midr_el1").write_text(CORE)


def _pip(folder: Path, *wheels: object) -> None:
    words: list[object] = [sys.executable, "-m", "pip", "install", "-q", "--no-deps"]
    words += ["--disable-pip-version-check", "--only-binary", ":all:"]
    words += ["--python-version", "3.11", "--upgrade", "--target", folder]
    for glibc in range(17, 29):
        words += ["--platform", f"manylinux_2_{glibc}_aarch64"]
    run(*words, *wheels)


def _version(name: str) -> str:
    return importlib.metadata.version(name).split("+")[0]


def _portable() -> Iterator[Path]:
    """What this venv's packages without machine code have in site-packages."""
    for package in importlib.metadata.distributions():
        files = [str(file) for file in package.files or []]
        if package.metadata["Name"].lower() in NOT_THERE:
            continue
        if any(file.endswith(".so") for file in files):
            continue
        tops = {file.split("/")[0] for file in files} - {"..", "__pycache__"}
        yield from (Path(str(package.locate_file(top))) for top in tops)


def _make_site(folder: Path) -> None:
    versions = [f"{name}=={_version(name)}" for name in (*BINARY, *MORE_BINARY)]
    _pip(folder, f"torch=={_version('torch')}", *versions)
    (folder / "sitecustomize.py").write_text(STARTUP)


def _link_portable(folder: Path) -> None:
    for path in _portable():
        if path.exists() and not (folder / path.name).exists():
            (folder / path.name).symlink_to(path)


def _make_launcher(root: Path) -> None:
    words = [EMULATOR, "-L", root, "-E", f"LD_LIBRARY_PATH={STUBS}"]
    words += [root / "usr/bin/python3.11"]
    command = " ".join(str(word) for word in words)
    LAUNCHER.write_text(f'#!/bin/sh\nulimit -c 0\nexec {command} "$@"\n')
    LAUNCHER.chmod(0o755)


def make(wheel: Path) -> None:
    """The host, with this wheel of the compiler. Processes that test side by side make it
    once."""
    mark = hashlib.sha256(wheel.read_bytes()).hexdigest()
    CACHE.mkdir(exist_ok=True)
    with open(CACHE / "arm-host.lock", "a+", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        lock.seek(0)
        if lock.read() == mark and SITE.exists():
            return
        lock.truncate(0)
        _make(wheel)
        lock.write(mark)


def _make(wheel: Path) -> None:
    root = debian.kept("bookworm", *SYSTEM, architecture="arm64")
    describe_cpus(root)
    if not SITE.exists():
        unfinished = SITE.with_suffix(".new")
        shutil.rmtree(unfinished, ignore_errors=True)
        _make_site(unfinished)
        unfinished.rename(SITE)
    _link_portable(SITE)
    if not STUBS.exists():
        cuda_stubs.write_for(SITE / "torch/lib", STUBS)
    _make_launcher(root)
    _pip(SITE, wheel)


def python(
    *arguments: object, folder: Path, core: str = "max", **variables: str
) -> str:
    """What a program prints there. `folder` is the working directory, and `core` is what
    the emulator calls the processor."""
    environment = {
        "EMULATED_PYTHON": str(LAUNCHER),
        "QEMU_CPU": core,
        "PYTHONPATH": str(SITE),
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": str(CPUS),
        "ANABRANCH_CACHE_HOME": str(folder / "cache"),
        **variables,
    }
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    done = subprocess.run(
        [str(word) for word in (LAUNCHER, "-X", "faulthandler", *arguments)],
        cwd=folder,
        env={**kept, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return done.stdout
