"""Threads call compiled functions at random, by support/random_calls.py."""

import os
import subprocess
import sys

import pytest
import random_calls


@pytest.mark.slow
def test_random_calls() -> None:
    """Runs in a process of its own, whose memory it measures."""
    command = [random_calls.__file__, "--seconds", "5", "--threads", "3"]
    done = subprocess.run(
        [sys.executable, *command],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "ANABRANCH_CACHE": "0"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
