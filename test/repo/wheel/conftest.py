"""Fixtures: the distributions, made once for all tests that read them, and a package."""

from __future__ import annotations

import fcntl
import os
import sys
from pathlib import Path

import pytest

from repository import ROOT


@pytest.fixture(scope="session")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """All files of dist/ that `make wheel` makes. The first process that needs the fixture
    makes them."""
    from wheel_support import run

    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent
    folder = ROOT / "dist"
    with open(shared / "distributions.lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        made = shared / "distributions.made"
        if not made.exists():
            for old in folder.glob("anabranch*"):
                old.unlink()
            run(sys.executable, ROOT / "scripts" / "wheel.py")
            made.touch()
    return sorted(folder.glob("anabranch*"))


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of `package_calls.export`."""
    from package_calls import export

    return export(tmp_path_factory.mktemp("exported"))
