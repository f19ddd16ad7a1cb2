"""The cache under torch.compile: hits, misses, and everything that goes wrong."""

import json
import os
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import torch

import anabranch
from anabranch import _C
from anabranch.packages import cache

SCRIPT = """
import json, torch, anabranch, warnings
warnings.simplefilter("error", UserWarning)
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.GELU()).eval()
x = torch.randn(4, 16)
with torch.no_grad():
    y = torch.compile(model, backend=anabranch.anabranch, options={options})(x)
    torch.testing.assert_close(y, model(x))
report = anabranch.last_report()
loaded = "libanabranch_compiler" in open("/proc/self/maps").read()
print(json.dumps([report.get("cache") == "hit", loaded, y.sum().item()]))
"""


@pytest.fixture
def home(tmp_path, monkeypatch) -> Path:
    monkeypatch.delenv("ANABRANCH_CACHE")
    monkeypatch.setenv("ANABRANCH_CACHE_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(cache, "_warned", set())
    return tmp_path / "home"


def start(options="{}") -> subprocess.Popen:
    script = SCRIPT.format(options=options)
    return subprocess.Popen(
        [sys.executable, "-c", script],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process: subprocess.Popen) -> tuple[bool, bool, float]:
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    return tuple(json.loads(out))


def compile_here(scale: float = 2.0, **options) -> bool:
    """Whether the cache had the package."""
    torch._dynamo.reset()
    model = torch.compile(
        lambda x: torch.tanh(x) * scale, backend=anabranch.anabranch, options=options
    )
    x = torch.randn(8, 8)
    torch.testing.assert_close(model(x), torch.tanh(x) * scale)
    return anabranch.last_report().get("cache") == "hit"


def test_a_hit_has_the_report_of_the_compilation(home) -> None:
    assert not compile_here()
    made = anabranch.last_report()
    assert compile_here()
    found = dict(anabranch.last_report())
    assert found.pop("cache") == "hit"
    assert {"kernels", "dispatches", "phases"} <= set(found)
    assert found | {"name": ""} == made | {"name": ""}


def entries(home: Path) -> list[dict]:
    return [e for e in _C.cache_entries(str(home)) if e["kind"] == "packages"]


def test_second_process_opens_no_compiler(home) -> None:
    first = finish(start())
    assert first[:2] == (False, True)
    second = finish(start())
    assert second[:2] == (True, False)
    assert first[2] == second[2]


def test_what_is_part_of_the_key(home) -> None:
    assert not compile_here()
    assert compile_here()
    assert not compile_here(scale=3.0)
    assert not compile_here(threads=1)
    assert compile_here(threads=1)
    assert not compile_here(streams="off")
    assert len(entries(home)) == 4


def test_frozen_values_are_part_of_the_key(home) -> None:
    def run(seed: int) -> bool:
        torch._dynamo.reset()
        torch.manual_seed(seed)
        model = torch.nn.Linear(8, 8).eval()
        compiled = torch.compile(
            model, backend=anabranch.anabranch, options={"freeze": True}
        )
        x = torch.randn(4, 8)
        with torch.no_grad():
            torch.testing.assert_close(compiled(x), model(x))
        return anabranch.last_report().get("cache") == "hit"

    assert [run(0), run(1), run(0), run(1)] == [False, False, True, True]


@pytest.mark.parametrize("how", ["option", "environment"])
def test_switched_off(home, monkeypatch, how) -> None:
    options = {}
    if how == "option":
        options = {"cache": False}
    else:
        monkeypatch.setenv("ANABRANCH_CACHE", "0")
    assert not compile_here(**options)
    assert not compile_here(**options)
    assert not home.exists()


def test_another_build_is_a_miss(home, monkeypatch) -> None:
    assert not compile_here()
    cpu, _, runtime = cache.identity()
    monkeypatch.setattr(cache, "identity", lambda: (cpu, "another", runtime))
    assert not compile_here()
    monkeypatch.setattr(cache, "identity", lambda: ("another", "another", runtime))
    assert not compile_here()


@pytest.mark.parametrize("name", ["program.bin", "kernels.so", "entry.json"])
@pytest.mark.parametrize("damage", ["byte", "short", "gone", "mode"])
def test_broken_entries_are_made_anew(home, name, damage) -> None:
    compile_here()
    path = Path(entries(home)[0]["folder"]) / name
    content = bytearray(path.read_bytes())
    if damage == "byte":
        content[len(content) // 2] ^= 4
        path.write_bytes(content)
    elif damage == "short":
        path.write_bytes(content[:-7])
    elif damage == "gone":
        path.unlink()
    else:
        path.chmod(0o666)
    with pytest.warns(UserWarning, match="made anew"):
        assert not compile_here()
    assert compile_here()


def test_no_folder_to_write_to(home) -> None:
    home.write_text("a file")
    with pytest.warns(UserWarning, match="can't be used"):
        assert not compile_here()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not compile_here(3.0)


def test_full_disk(home, monkeypatch) -> None:
    def full(*_):
        raise OSError(28, "No space left on device")

    class Full(_C.CacheEntry):
        publish = full

    monkeypatch.setattr(_C, "CacheEntry", Full)
    with pytest.warns(UserWarning, match="No space left"):
        assert not compile_here()


def test_limit_removes_what_was_used_least(home, monkeypatch) -> None:
    compile_here(2.0)
    size = sum(entry["bytes"] for entry in _C.cache_entries(str(home)))
    monkeypatch.setenv("ANABRANCH_CACHE_BYTES", str(size * 5 // 2))
    old = Path(entries(home)[0]["folder"]) / "entry.json"
    compile_here(3.0)
    os.utime(old, (1, 1))
    compile_here(4.0)
    assert len(entries(home)) == 2
    assert not old.exists()


def test_bad_limit(home, monkeypatch) -> None:
    monkeypatch.setenv("ANABRANCH_CACHE_BYTES", "much")
    with pytest.warns(UserWarning, match="must be a number of bytes"):
        assert not compile_here()


def test_many_processes_compile_once(home) -> None:
    found = [finish(process) for process in [start() for _ in range(4)]]
    assert len({total for _, _, total in found}) == 1
    assert sum(loaded for _, loaded, _ in found) == 1


def test_other_data_in_the_folder_is_left_alone(home) -> None:
    home.mkdir()
    (home / "machine-1.json").write_text("{}")
    compile_here()
    assert compile_here()
    assert (home / "machine-1.json").exists()
