"""Folders for temporary files: later processes remove those of killed processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile

import pytest

from anabranch import scratch

HOLD = """
import sys, time
from anabranch import scratch
with scratch.folder() as folder:
    print(folder, flush=True)
    time.sleep(600)
"""


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    scratch._sweep.cache_clear()
    yield tmp_path
    scratch._sweep.cache_clear()


def test_only_folders_of_dead_processes_are_removed(place):
    dead, living = (
        subprocess.Popen(
            [sys.executable, "-c", HOLD], stdout=subprocess.PIPE, text=True
        )
        for _ in range(2)
    )
    try:
        left, held = (p.stdout.readline().strip() for p in (dead, living))
        dead.send_signal(signal.SIGKILL)
        dead.wait()
        foreign = place / "anabranch-of-somebody"
        foreign.mkdir()
        assert os.path.isdir(left)
        with scratch.folder() as own:
            assert os.path.dirname(own) == str(place)
            assert not os.path.exists(left)
            assert os.path.isdir(held)
            assert foreign.is_dir()
        assert not os.path.exists(own)
    finally:
        for process in (dead, living):
            process.kill()
            process.communicate()


def test_without_a_place_for_temporary_files_the_cache_has_one(
    place, tmp_path, monkeypatch
):
    def nowhere():
        raise FileNotFoundError("no usable temporary directory")

    monkeypatch.setattr(tempfile, "gettempdir", nowhere)
    monkeypatch.setenv("ANABRANCH_CACHE_HOME", str(tmp_path / "home"))
    with scratch.folder() as folder:
        assert folder.startswith(str(tmp_path / "home"))
    (tmp_path / "file").touch()
    monkeypatch.setenv("ANABRANCH_CACHE_HOME", str(tmp_path / "file"))
    needed = pytest.raises(OSError, match="set TMPDIR or ANABRANCH_CACHE_HOME")
    with needed, scratch.folder():
        pass
