"""Helpers of the wheels' tests: they run commands, also on a machine without LLVM."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from repository import ROOT

sys.path.insert(0, str(ROOT / "scripts"))


def run(*command: object, **options) -> str:
    """The output of a command that must succeed."""
    done = attempt(*command, **options)
    assert done.returncode == 0, f"{command}\n{done.stdout}"
    return done.stdout


def attempt(*command: object, **options) -> subprocess.CompletedProcess:
    return subprocess.run(
        [str(word) for word in command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        **options,
    )


def wheel_named(
    distributions: list[Path], part: str, machine: str | None = None
) -> Path:
    """The wheel with `part` in its name, for this machine if none is named."""
    end = f"_{machine or platform.machine()}.whl"
    return next(p for p in distributions if part in p.name and p.name.endswith(end))


def hiding_prefix(empty: Path) -> list[str]:
    """The prefix for a command from which LLVM and the build are hidden."""
    empty.mkdir(exist_ok=True)
    hidden = ["/usr/lib/llvm-19", str(ROOT / "build")]
    libraries = Path("/usr/lib/x86_64-linux-gnu")
    files = [*libraries.glob("libLLVM*.so*"), *libraries.glob("libMLIR*.so*")]
    script = [f"mount --bind {empty} {folder}" for folder in hidden]
    script += [f"mount --bind /dev/null {name}" for name in files if name.is_file()]
    script.append('exec "$@"')
    unshare = ["unshare", "--mount", *([] if os.geteuid() == 0 else ["-r"])]
    prefix = [*unshare, "sh", "-ec", "\n".join(script), "sh"]
    possible = subprocess.run([*prefix, "true"], capture_output=True, check=False)
    if possible.returncode:
        pytest.skip("this machine lets us make no mount namespace")
    return prefix
