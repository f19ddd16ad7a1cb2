"""Runs Python programs in processes of their own, with the tests' packages on the path."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def run_python(
    *arguments: str, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Runs `python ARGUMENTS`, which must end well, and returns its output."""
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done


def run_script(folder: Path, script: str) -> subprocess.CompletedProcess[str]:
    """Runs the script as the file script.py in the folder."""
    (folder / "script.py").write_text(script, encoding="utf-8")
    return run_python("script.py", cwd=folder)
