"""Traces from Python: `profile()`, ANABRANCH_TRACE, the option, torch.profiler."""

import gc
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch.profiler import ProfilerActivity

import anabranch


def mlp(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return torch.relu(x @ w).sum(-1)


@pytest.fixture(scope="module")
def compiled():
    function = torch.compile(mlp, backend=anabranch.anabranch, dynamic=True)
    function(torch.ones(3, 8), torch.ones(8, 16))
    return function


def of_kind(events: list[dict], category: str) -> list[dict]:
    return [event for event in events if event.get("cat") == category]


def test_slices_say_what_ran(compiled, tmp_path: Path) -> None:
    with anabranch.profile() as trace:
        compiled(torch.ones(5, 8), torch.ones(8, 16))
    commands = of_kind(trace.events(), "stream")
    assert len(of_kind(trace.events(), "call")) == 1
    product = next(e for e in commands if "mm" in e["args"]["operators"])
    about = product["args"]
    assert about["source"].startswith(f"{__file__}:")
    line = int(about["source"].rpartition(":")[2])
    assert "torch.relu(x @ w)" in Path(__file__).read_text().splitlines()[line - 1]
    assert "f32[5, 8]" in about["shapes"]
    assert about["FLOP"] >= 2 * 5 * 8 * 16
    assert about["bytes"] >= 4 * (5 * 8 + 8 * 16)
    assert about["stream"]
    assert product["name"].startswith("k_")
    workers = of_kind(trace.events(), "worker")
    assert len(workers) >= len(commands)
    trace.save(tmp_path / "trace.json")
    saved = json.loads((tmp_path / "trace.json").read_text())
    assert saved["traceEvents"] == trace.events()
    assert saved["anabranch"]["machine"]["gflops"] > 0


def test_nothing_is_recorded_outside(compiled) -> None:
    with anabranch.profile() as trace:
        pass
    compiled(torch.ones(5, 8), torch.ones(8, 16))
    assert of_kind(trace.events(), "call") == []


def test_a_path_gets_the_file(compiled, tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    with anabranch.profile(path) as trace:
        compiled(torch.ones(5, 8), torch.ones(8, 16))
    assert json.loads(path.read_text())["traceEvents"] == trace.events()
    trace.save(path)  # saves onto the same file
    assert json.loads(path.read_text())["traceEvents"] == trace.events()


def test_an_exception_leaves_the_trace(compiled) -> None:
    with pytest.raises(ZeroDivisionError), anabranch.profile() as trace:
        compiled(torch.ones(5, 8), torch.ones(8, 16))
        raise ZeroDivisionError
    assert len(of_kind(trace.events(), "call")) == 1
    with anabranch.profile():  # a later trace may begin
        pass


def test_one_trace_at_a_time() -> None:
    refused = pytest.raises(ValueError, match="already running, into .*trace.json")
    with anabranch.profile(), refused, anabranch.profile():
        raise AssertionError("two traces ran at once")


def test_a_running_trace_cannot_be_saved(tmp_path: Path) -> None:
    with anabranch.profile() as trace:
        with pytest.raises(RuntimeError, match=r"save\(\) after the `with` block"):
            trace.save(tmp_path / "early.json")
        with pytest.raises(RuntimeError, match=r"events\(\) after"):
            trace.events()
    assert not (tmp_path / "early.json").exists()


@pytest.mark.parametrize("path", [3, b"trace.json", True])
def test_what_is_no_path_is_refused(path) -> None:
    with pytest.raises(TypeError, match="must be a path"):
        anabranch.profile(path).__enter__()


def test_a_path_that_cannot_be_written_is_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="cannot write the trace"):
        anabranch.profile(tmp_path / "no" / "folder.json").__enter__()
    with pytest.raises(OSError, match="cannot write the trace"):
        anabranch.profile(tmp_path).__enter__()
    with anabranch.profile():
        pass


def test_the_file_goes_with_the_trace() -> None:
    with anabranch.profile() as trace:
        pass
    folder = os.path.dirname(trace._path)
    assert os.path.exists(folder)
    del trace
    gc.collect()
    assert not os.path.exists(folder)


SCRIPT = """
import sys, torch, anabranch
options = {"trace": sys.argv[1]} if len(sys.argv) > 1 else {}
f = torch.compile(lambda x: x * 2 + 1, backend=anabranch.anabranch, options=options)
for _ in range(3):
    f(torch.ones(7))
"""


def run(*arguments: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stderr


@pytest.mark.parametrize("by", ["environment", "option"])
def test_a_whole_process_is_traced(by: str, tmp_path: Path) -> None:
    path = str(tmp_path / "trace.json")
    if by == "environment":
        run(ANABRANCH_TRACE=path)
    else:
        said = run(path, ANABRANCH_EXPLAIN="1")
        assert f"anabranch report {path}" in said
    assert len(of_kind(json.loads(Path(path).read_text())["traceEvents"], "call")) == 3


def test_a_bad_path_in_the_environment_is_said(tmp_path: Path) -> None:
    said = run(ANABRANCH_TRACE=str(tmp_path / "no" / "folder.json"))
    assert "cannot write the trace" in said


def test_torch_profiler_shows_calls_and_commands(compiled) -> None:
    arguments = torch.ones(5, 8), torch.ones(8, 16)
    with torch.profiler.profile(activities=[ProfilerActivity.CPU]) as profiler:
        compiled(*arguments)
    ours = [e for e in profiler.events() if e.name.startswith("anabranch: ")]
    assert any("mm" in e.name and "test_profile.py:" in e.name for e in ours)
    call = max(ours, key=lambda e: e.time_range.elapsed_us())
    for event in ours:
        assert call.time_range.start <= event.time_range.start
        assert event.time_range.end <= call.time_range.end
    compiled(*arguments)  # outside of the profile nothing is recorded
    with torch.profiler.profile(activities=[ProfilerActivity.CPU]) as second:
        torch.ones(3)
    assert not [e for e in second.events() if e.name.startswith("anabranch: ")]


def test_both_profilers_at_once(compiled) -> None:
    with anabranch.profile() as trace, torch.profiler.profile() as profiler:
        compiled(torch.ones(5, 8), torch.ones(8, 16))
    ours = [e for e in profiler.events() if e.name.startswith("anabranch: ")]
    assert len(ours) == len(of_kind(trace.events(), "worker")) + 1
