"""Random in-place programs equal eager, by support/random_updates.py."""

import os
import subprocess
import sys

import covering
import pytest
import random_updates

# The number of programs in one run.
COUNT = os.environ.get("ANABRANCH_UPDATES", "40" if covering.asked_for() else "80")
SEED = "2000"


@pytest.mark.slow
@pytest.mark.parametrize("kind", [[], ["--operators"]], ids=["updates", "operators"])
def test_random_updates(kind: list[str]) -> None:
    """Runs in a process of its own, which forks children. A fork of the tests' process
    would lack the OpenMP threads that other tests have started."""
    command = [random_updates.__file__, "--count", COUNT, "--seed", SEED, *kind]
    done = subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
