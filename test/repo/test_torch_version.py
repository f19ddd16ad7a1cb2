"""An untested torch is refused. The error has both versions and says what to do."""

import os
import subprocess
import sys
import types

import pytest

from anabranch import torch_version
from repository import ROOT


@pytest.mark.parametrize(
    "version", ["2.13.0", "2.13.1+cpu", "2.13.0a0+git12", "2.12.1", "2.15.0+cu132"]
)
def test_tested_versions_pass(version: str) -> None:
    torch_version.check(version)


@pytest.mark.parametrize("version", ["2.11.0", "1.13.0", "2.16.0.dev1", "3.0", "odd"])
def test_others_are_refused(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANABRANCH_ANY_TORCH", raising=False)
    with pytest.raises(ImportError) as caught:
        torch_version.check(version)
    for part in (
        f"torch {version}",
        "torch 2.12",
        "pip install",
        "ANABRANCH_ANY_TORCH",
    ):
        assert part in str(caught.value)


def test_a_user_may_try_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANABRANCH_ANY_TORCH", "1")
    with pytest.warns(RuntimeWarning, match=r"torch 2\.99.*not tested"):
        torch_version.check("2.99")


SCRIPT = """
import sys, types
torch = types.ModuleType("torch")
torch.__version__ = "2.5.1"
sys.modules["torch"] = torch
import anabranch
"""


def start(**variables: str) -> subprocess.CompletedProcess:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python"), **variables}
    return subprocess.run(
        [sys.executable, "-c", SCRIPT],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )


def test_import_says_so_at_once() -> None:
    done = start(ANABRANCH_ANY_TORCH="0")
    assert done.returncode != 0
    assert "ImportError: this Anabranch works with torch 2.12" in done.stderr
    done = start(ANABRANCH_ANY_TORCH="1")
    assert done.returncode == 0, done.stderr
    assert "RuntimeWarning" in done.stderr


def test_a_name_looks_at_a_torch_that_came_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import anabranch

    other = types.ModuleType("torch")
    other.__version__ = "2.5.1"
    monkeypatch.setitem(sys.modules, "torch", other)
    monkeypatch.delitem(anabranch.__dict__, "compile", raising=False)
    monkeypatch.delenv("ANABRANCH_ANY_TORCH", raising=False)
    with pytest.raises(ImportError, match="2.5.1"):
        anabranch.compile  # noqa: B018


def test_the_range_is_that_of_the_wheel() -> None:
    """pyproject.toml and the check at import agree."""
    oldest, below = (
        f"{major}.{minor}"
        for major, minor in (torch_version.OLDEST, torch_version.BELOW)
    )
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert f'"torch>={oldest},<{below}"' in text
