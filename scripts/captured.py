"""Runs a command and keeps all that it prints."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def run(
    command: Sequence[str | Path],
    environment: Mapping[str, str] | None = None,
    seconds: float | None = None,
) -> subprocess.CompletedProcess[str]:
    """The ended process, whose `stdout` has both outputs. It ran in the root of the
    checkout.

    environment  variables besides those of this process
    seconds      subprocess.TimeoutExpired: the command takes longer
    """
    return subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, **(environment or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
        timeout=seconds,
    )
