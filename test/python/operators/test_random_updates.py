"""In-place programs against eager; see support/random_updates.py."""

import os
import subprocess
import sys

import pytest
import random_updates

# Programs of one run.
COUNT = os.environ.get("ANABRANCH_UPDATES", "80")
SEED = "2000"


@pytest.mark.slow
def test_random_updates() -> None:
    """In a process of its own, from which each program's process is forked: other
    tests begin threads of OpenMP, which do not survive a fork."""
    command = [random_updates.__file__, "--count", COUNT, "--seed", SEED]
    done = subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
