"""Models and processes share the machine code of single kernels."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from kernel_sharing import compile_and_compare, model

import anabranch
from anabranch import _C
from anabranch.packages import cache


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch) -> Path:
    monkeypatch.delenv("ANABRANCH_CACHE")
    monkeypatch.setenv("ANABRANCH_CACHE_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(cache, "_warned", set())
    return tmp_path / "home"


def objects(home: Path) -> list[dict]:
    return [e for e in _C.cache_entries(str(home)) if e["kind"] == cache.OBJECTS]


def test_models_share_their_equal_kernels(home) -> None:
    first = compile_and_compare(model(8))
    assert first and not any(first) and len(objects(home)) == len(first)
    second = compile_and_compare(model(16))
    assert sum(second) == len(second) - 1
    assert len(objects(home)) == len(first) + 1


def test_names_do_not_matter(home) -> None:
    def plain(x):
        return torch.tanh(x) * 2

    def named(values):
        shifted = torch.tanh(values) * 2
        return shifted, torch.exp(values).sum(0)

    compile_and_compare(plain)
    assert sorted(compile_and_compare(named)) == [False, True]


def broken(path: Path, how: str) -> None:
    data = bytearray(path.read_bytes())
    if how == "changed":
        data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data[: len(data) // 2] if how == "cut" else data))
    if how == "of others":
        path.chmod(0o666)


@pytest.mark.parametrize("how", ["changed", "cut", "of others"])
def test_what_is_broken_is_compiled_again(home, how) -> None:
    count = len(compile_and_compare(model(8)))
    for entry in objects(home):
        broken(Path(entry["folder"]) / "kernel.o", how)
    found = compile_and_compare(model(16))
    assert found and not any(found)
    assert sum(compile_and_compare(model(4))) == count - 1


def test_another_compiler_is_another_key(home, monkeypatch) -> None:
    compile_and_compare(model(8))
    real = cache.identity()
    monkeypatch.setattr(cache, "identity", lambda: (real[0], "another", real[2]))
    assert not any(compile_and_compare(model(16)))


def test_where_nothing_can_be_written(home) -> None:
    home.mkdir()
    (home / cache.OBJECTS).write_text("no folder")
    assert not any(compile_and_compare(model(8)))


def test_who_watches_has_kernels_made(home, tmp_path) -> None:
    compile_and_compare(model(8))
    torch._dynamo.reset()
    config = anabranch.Config(dump=str(tmp_path / "dump"), debug=True)
    with torch.no_grad():
        anabranch.compile(model(16), config=config, dynamic=False)(torch.ones(24, 32))
    report = anabranch.last_report()
    assert not any(kernel["found"] for kernel in report["kernels"])


def test_targets_are_compiled_beside_each_other(home, tmp_path) -> None:
    x = torch.randn(24, 32)
    for last in (8, 16):
        module, path = model(last), tmp_path / f"p{last}"
        anabranch.export(module, path, (x,), targets=["native", "x86-64-v3"])
        for target in ("native", "x86-64-v3"):
            result = anabranch.load(path, target=target)(x)
            torch.testing.assert_close(result, module(x).detach())


SCRIPT = """
import sys, torch
from kernel_sharing import compile_and_compare, model
compile_and_compare(model(int(sys.argv[1])))
"""


def test_processes_keep_the_same_kernels_at_once(home) -> None:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    children = [
        subprocess.Popen([sys.executable, "-c", SCRIPT, str(last)], env=environment)
        for last in (8, 9)
    ]
    assert [child.wait(240) for child in children] == [0, 0]
    found = compile_and_compare(model(32))
    assert sum(found) == len(found) - 1
