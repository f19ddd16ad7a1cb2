"""Packages and caches that belong to other users, as on volumes of containers."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import anabranch
from anabranch import cli

TEAM = 54321

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes others")

# The interpreter may lie where only root can read, so imports come first.
BECOME = """
import os, sys
def become(user):
    if user:
        os.setgroups([])
        os.setgid(54321)
        os.setuid(user)
"""

LOAD = """
import numpy, anabranch, anabranch.deploy.load
become(int(sys.argv.pop(1)))
trust = {"trust": sys.argv[2]} if len(sys.argv) > 2 else {}
try:
    loaded = anabranch.load(sys.argv[1], **trust)
    print("ran", loaded(numpy.ones((2, 8), numpy.float32)).shape)
except (OSError, RuntimeError, ValueError) as error:
    print("refused", error)
"""

COMPILE = """
import warnings, torch, anabranch
torch.manual_seed(0)
model, x = torch.nn.Linear(8, 8).eval(), torch.ones(3, 8)
with torch.no_grad():
    nothing = anabranch.Config(cache=False)
    anabranch.compile(torch.nn.ReLU(), config=nothing, dynamic=False)(x)
become(int(sys.argv.pop(1)))
config = anabranch.Config(trust=sys.argv[1] if len(sys.argv) > 1 else None)
with torch.no_grad(), warnings.catch_warnings(record=True) as warned:
    warnings.simplefilter("always")
    y = anabranch.compile(model, config=config, dynamic=False)(x)
    assert torch.allclose(y, model(x), atol=1e-5)
print(anabranch.last_report().get("cache"), [str(w.message) for w in warned])
"""


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    """A folder that every user of the machine can reach."""
    for folder in (tmp_path, *tmp_path.parents):
        if folder.stat().st_mode & 0o011 == 0o011:
            break
        folder.chmod(folder.stat().st_mode | 0o111)
    place = tmp_path / "volume"
    place.mkdir()
    return place


@pytest.fixture
def package(volume: Path) -> Path:
    anabranch.export(torch.nn.Linear(8, 8).eval(), volume / "p", torch.randn(2, 8))
    return volume / "p"


def run_as(user: int, program: str, *arguments: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", BECOME + program, str(user), *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "ANABRANCH_CACHE": "1", **environment},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def give(root: Path, user: int, group: int, files: int, folders: int) -> None:
    for path in (root, *root.rglob("*")):
        os.chown(path, user, group, follow_symlinks=False)
        if not path.is_symlink():
            path.chmod(folders if path.is_dir() else files)


@as_root
def test_a_volume_of_a_group(package):
    """`fsGroup` of Kubernetes makes such volumes: root's files, which a group may write."""
    give(package, 0, TEAM, 0o660, 0o2770)
    said = run_as(10001, LOAD, package)
    assert said.startswith("refused")
    assert 'trust="group" or ANABRANCH_TRUST=group accepts it' in said
    assert run_as(10001, LOAD, package, "group").startswith("ran")
    assert run_as(10001, LOAD, package, ANABRANCH_TRUST="group").startswith("ran")
    give(package, 10002, TEAM, 0o640, 0o750)
    assert "belongs to another user" in run_as(10001, LOAD, package)
    assert run_as(10001, LOAD, package, "group").startswith("ran")


def test_inspect_takes_whom_to_trust(package, capsys):
    package.chmod(0o770)
    assert cli.main(["inspect", str(package)]) == 1
    assert 'trust="group"' in capsys.readouterr().err
    assert cli.main(["inspect", "--trust", "group", str(package)]) == 0
    assert "ANABRANCH_TRUST" not in os.environ
    with pytest.raises(SystemExit):
        cli.main(["kernels", "--trust", "nobody", "ls"])
    assert "invalid choice: 'nobody'" in capsys.readouterr().err


@as_root
def test_a_volume_of_anybody(package):
    give(package, 10002, 10002, 0o666, 0o777)
    for trust in ("user", "group"):
        said = run_as(10001, LOAD, package, trust)
        assert "ANABRANCH_TRUST=anyone accepts it" in said
    assert run_as(10001, LOAD, package, "anyone").startswith("ran")


def test_links_as_a_config_map_has_them(package):
    """Every file is a link through `..data` to a folder of another name."""
    data = package / "..2026_01_01"
    data.mkdir()
    for path in [p for p in package.iterdir() if p != data]:
        path.rename(data / path.name)
        path.symlink_to(f"..data/{path.name}")
    (package / "..data").symlink_to(data.name)
    with pytest.raises(RuntimeError, match="it is a link; trust=.group."):
        anabranch.load(package)
    x = torch.ones(2, 8).numpy()
    assert anabranch.load(package, trust="group")(x).shape == (2, 8)


def test_wrong_words_are_named(package, monkeypatch):
    with pytest.raises(ValueError, match="trust must be user, group or anyone"):
        anabranch.load(package, trust="friends")
    with pytest.raises(ValueError, match="trust must be one of"):
        anabranch.Config(trust="friends")
    monkeypatch.setenv("ANABRANCH_TRUST", "friends")
    with pytest.raises(ValueError, match="ANABRANCH_TRUST must be user"):
        anabranch.load(package)


@as_root
def test_users_of_a_group_share_a_cache(volume):
    home = volume / "cache"
    home.mkdir()
    give(home, 0, TEAM, 0o660, 0o2770)
    place = {"ANABRANCH_CACHE_HOME": str(home)}
    assert run_as(10001, COMPILE, "group", **place) == "None []\n"
    assert run_as(10002, COMPILE, "group", **place) == "hit []\n"
    assert run_as(10001, COMPILE, ANABRANCH_TRUST="group", **place) == "hit []\n"
    assert "ANABRANCH_TRUST=group accepts it" in run_as(10002, COMPILE, **place)


@as_root
def test_a_cache_that_can_only_be_read(volume):
    home = volume / "cache"
    home.mkdir()
    place = {"ANABRANCH_CACHE_HOME": str(home)}
    run_as(0, COMPILE, "group", **place)
    give(home, 0, TEAM, 0o640, 0o750)
    assert run_as(10001, COMPILE, "group", **place) == "hit []\n"
