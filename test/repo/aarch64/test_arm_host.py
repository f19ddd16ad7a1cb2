"""An emulated host is made once for each wheel, however many processes test there."""

from __future__ import annotations

from pathlib import Path

import arm_host
import pytest

HOST = arm_host.USUAL


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """The wheels that a host was made with."""
    wheels: list[str] = []

    def make(host: arm_host.Host, wheel: Path) -> None:
        if wheel.name == "broken.whl":
            raise SystemExit("pip failed")
        wheels.append(wheel.name)
        host.site.mkdir(exist_ok=True)

    monkeypatch.setattr(arm_host, "CACHE", tmp_path)
    monkeypatch.setattr(arm_host.Host, "_make", make)
    for name in ("a", "b", "broken"):
        (tmp_path / f"{name}.whl").write_text(name)
    return wheels


def test_a_host_is_made_for_another_wheel(made: list[str], tmp_path: Path) -> None:
    for name in ("a", "a", "b", "b", "a"):
        HOST.make(tmp_path / f"{name}.whl")
    assert made == ["a.whl", "b.whl", "a.whl"]


def test_a_host_that_could_not_be_made_is_made_again(
    made: list[str], tmp_path: Path
) -> None:
    HOST.make(tmp_path / "a.whl")
    with pytest.raises(SystemExit):
        HOST.make(tmp_path / "broken.whl")
    HOST.make(tmp_path / "a.whl")
    assert made == ["a.whl", "a.whl"]


def test_hosts_are_beside_each_other(made: list[str], tmp_path: Path) -> None:
    for host in (HOST, arm_host.NEWER, HOST):
        host.make(tmp_path / "a.whl")
    assert made == ["a.whl", "a.whl"]


def test_each_host_has_its_wheel(tmp_path: Path) -> None:
    for tag in ("cp311-cp311", "cp312-abi3"):
        (tmp_path / f"anabranch-1-{tag}-manylinux_2_28_aarch64.whl").touch()
        (tmp_path / f"anabranch-1-{tag}-manylinux_2_28_x86_64.whl").touch()
    for host in (HOST, arm_host.NEWER):
        assert f"{host.tag}-" in host.wheel(tmp_path).name
        assert host.wheel(tmp_path).stem.endswith("aarch64")
    with pytest.raises(AssertionError, match=r"no wheel cp311 .*/wheel.py --aarch64"):
        HOST.wheel(tmp_path / "empty")
