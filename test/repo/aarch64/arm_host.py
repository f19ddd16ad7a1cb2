"""Hosts of 64-bit Arm with the compiler's wheel and PyTorch, in an emulator.

Each is made in .cache/ once, from a CPython of Debian, wheels of PyPI for 64-bit Arm, and
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
from dataclasses import dataclass
from pathlib import Path

import cuda_stubs

from repository import ROOT
from wheel_support import run
from wheels import debian

EMULATOR = "qemu-aarch64-static"
CACHE = ROOT / ".cache"
LIBRARIES = ("libgcc-s1", "libstdc++6")
# Debian's newer suites have their links of /lib in it.
LINKS = ("base-files",)
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


@dataclass(frozen=True)
class Host:
    """A CPython, the suite of Debian that has it, which wheel serves it, and what else the
    system has."""

    version: str  # "3.11"
    suite: str
    tag: str
    system: tuple[str, ...] = LIBRARIES

    def _place(self, name: str) -> Path:
        return CACHE / f"arm-{name}-{self.version}"

    @property
    def site(self) -> Path:
        return self._place("site")

    @property
    def launcher(self) -> Path:
        return self._place("python")

    @property
    def stubs(self) -> Path:
        return CACHE / "arm-stubs"

    def wheel(self, folder: Path) -> Path:
        found = sorted(folder.glob(f"anabranch-*-{self.tag}-*_aarch64.whl"))
        assert found, f"no wheel {self.tag} for 64-bit Arm: scripts/wheel.py --aarch64"
        return found[-1]

    def make(self, wheel: Path) -> None:
        """The host, with this wheel of the compiler. Processes that test side by side make
        it once."""
        mark = hashlib.sha256(wheel.read_bytes()).hexdigest()
        CACHE.mkdir(exist_ok=True)
        with open(self._place("lock"), "a+", encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            lock.seek(0)
            if lock.read() == mark and self.site.exists():
                return
            lock.truncate(0)
            self._make(wheel)
            lock.write(mark)

    def _make(self, wheel: Path) -> None:
        packages = (f"python{self.version}", *self.system)
        root = debian.kept(self.suite, *packages, architecture="arm64")
        describe_cpus(root)
        if not self.site.exists():
            unfinished = self.site.with_name(f"{self.site.name}.new")
            shutil.rmtree(unfinished, ignore_errors=True)
            self._make_site(unfinished)
            unfinished.rename(self.site)
        self._link_portable()
        if not self.stubs.exists():
            cuda_stubs.write_for(self.site / "torch/lib", self.stubs)
        self._make_launcher(root)
        self._pip(self.site, wheel)

    def _pip(self, folder: Path, *wheels: object) -> None:
        words: list[object] = [sys.executable, "-m", "pip", "install", "-q"]
        words += ["--no-deps", "--disable-pip-version-check", "--only-binary", ":all:"]
        words += ["--python-version", self.version, "--upgrade", "--target", folder]
        for glibc in range(17, 29):
            words += ["--platform", f"manylinux_2_{glibc}_aarch64"]
        run(*words, *wheels)

    def _make_site(self, folder: Path) -> None:
        versions = [f"{name}=={_version(name)}" for name in (*BINARY, *MORE_BINARY)]
        self._pip(folder, f"torch=={_version('torch')}", *versions)
        (folder / "sitecustomize.py").write_text(STARTUP)

    def _link_portable(self) -> None:
        for path in _portable():
            if path.exists() and not (self.site / path.name).exists():
                (self.site / path.name).symlink_to(path)

    def _make_launcher(self, root: Path) -> None:
        words = [EMULATOR, "-L", root, "-E", f"LD_LIBRARY_PATH={self.stubs}"]
        words += [root / f"usr/bin/python{self.version}"]
        command = " ".join(str(word) for word in words)
        self.launcher.write_text(f'#!/bin/sh\nulimit -c 0\nexec {command} "$@"\n')
        self.launcher.chmod(0o755)

    def python(
        self, *arguments: object, folder: Path, core: str = "max", **variables: str
    ) -> str:
        """What a program prints there. `folder` is the working directory, and `core` is
        what the emulator calls the processor."""
        environment = {
            "EMULATED_PYTHON": str(self.launcher),
            "QEMU_CPU": core,
            "PYTHONPATH": str(self.site),
            "HF_HUB_OFFLINE": "1",
            "OMP_NUM_THREADS": str(CPUS),
            "ANABRANCH_CACHE_HOME": str(folder / "cache"),
            **variables,
        }
        names = [name for name in ("PATH", "HOME") if name in os.environ]
        done = subprocess.run(
            [str(word) for word in (self.launcher, "-X", "faulthandler", *arguments)],
            cwd=folder,
            env={**{name: os.environ[name] for name in names}, **environment},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
        return done.stdout


USUAL = Host("3.11", "bookworm", "cp311")
# The wheel for the stable ABI serves it.
NEWER = Host("3.13", "trixie", "cp312-abi3", LIBRARIES + LINKS)
