"""The emulated host is made once for each wheel, however many processes test there."""

from __future__ import annotations

from pathlib import Path

import arm_host
import pytest


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """The wheels that a host was made with."""
    wheels: list[str] = []

    def make(wheel: Path) -> None:
        if wheel.name == "broken.whl":
            raise SystemExit("pip failed")
        wheels.append(wheel.name)
        (tmp_path / "site").mkdir(exist_ok=True)

    monkeypatch.setattr(arm_host, "CACHE", tmp_path)
    monkeypatch.setattr(arm_host, "SITE", tmp_path / "site")
    monkeypatch.setattr(arm_host, "_make", make)
    for name in ("a", "b", "broken"):
        (tmp_path / f"{name}.whl").write_text(name)
    return wheels


def test_a_host_is_made_for_another_wheel(made: list[str], tmp_path: Path) -> None:
    for name in ("a", "a", "b", "b", "a"):
        arm_host.make(tmp_path / f"{name}.whl")
    assert made == ["a.whl", "b.whl", "a.whl"]


def test_a_host_that_could_not_be_made_is_made_again(
    made: list[str], tmp_path: Path
) -> None:
    arm_host.make(tmp_path / "a.whl")
    with pytest.raises(SystemExit):
        arm_host.make(tmp_path / "broken.whl")
    arm_host.make(tmp_path / "a.whl")
    assert made == ["a.whl", "a.whl"]
