"""Python programs in a process of their own, which finds what the tests find."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def run_python(
    *arguments: str, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """`python ARGUMENTS`, which must end well; with what it printed."""
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
    """The script as the file script.py of the folder, which it runs in."""
    (folder / "script.py").write_text(script, encoding="utf-8")
    return run_python("script.py", cwd=folder)
