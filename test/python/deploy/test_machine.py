"""The container decides the number of threads, unless the user sets it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from anabranch import _C, cli
from anabranch.config import Config
from anabranch.packages import package

SET = ("ANABRANCH_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
V1 = Path("/sys/fs/cgroup/cpu")
V2 = Path("/sys/fs/cgroup")


def facts(text: str) -> dict[str, str]:
    return dict(line.split(": ", 1) for line in text.splitlines())


def threads(values: dict[str, str]) -> tuple[int, str]:
    """The number of threads and the rule that gave it."""
    number, rule = values["threads of a call"].split(", ", 1)
    return int(number), rule


def in_a_process(begin: Callable[[], None] | None = None, **environment: str):
    """The output of `anabranch machine` in a process of its own."""
    command = [sys.executable, "-c", "from anabranch.cli import main; main()"]
    kept = {name: text for name, text in os.environ.items() if name not in SET}
    done = subprocess.run(
        [*command, "machine"],
        env=kept | environment,
        preexec_fn=begin,
        capture_output=True,
        text=True,
        check=True,
    )
    return facts(done.stdout)


def test_machine_prints_a_fact_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["machine"]) == 0
    found = facts(capsys.readouterr().out)
    assert threads(found)[0] == _C.default_threads()
    assert found["CPUs of this process"].startswith(str(len(os.sched_getaffinity(0))))
    assert {"CPU quota", "memory limit", "idle workers"} <= set(found)
    assert found["whose threads help"].startswith(("the ", "none"))
    assert {"CPU model", "bytes read by a core in a cycle", "caches"} <= set(found)
    assert {"last caches of these CPUs", "memory nodes"} <= set(found)
    rates = found["multiply-adds of a core in a cycle"]
    assert ("f32 FMA" in rates) == (" fma " in Path("/proc/cpuinfo").read_text())


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="there is one CPU")
def test_affinity_counts() -> None:
    one = {min(os.sched_getaffinity(0))}
    found = in_a_process(lambda: os.sched_setaffinity(0, one))
    assert threads(found)[0] == 1


def test_openmp_counts_below_our_own_variable() -> None:
    found = in_a_process(OMP_NUM_THREADS="3,2")
    assert threads(found) == (3, "by OMP_NUM_THREADS")
    found = in_a_process(OMP_NUM_THREADS="3", ANABRANCH_NUM_THREADS="5")
    assert threads(found) == (5, "by ANABRANCH_NUM_THREADS")
    found = in_a_process(OMP_NUM_THREADS="many")
    assert found["OMP_NUM_THREADS"] == "'many', ignored: not a positive number"
    assert threads(found)[1] != "by OMP_NUM_THREADS"


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="there is one CPU")
def test_set_num_threads_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    if any(name in os.environ for name in SET):
        pytest.skip("the environment sets the number")
    before, usual = torch.get_num_threads(), _C.default_threads()
    cores = int(facts(_C.machine_facts())["cores of these CPUs"])
    if cores < 2:
        pytest.skip("there is one core")
    torch.set_num_threads(1)
    try:
        assert _C.default_threads() == 1
        assert threads(facts(_C.machine_facts())) == (1, "by torch.set_num_threads")
    finally:
        torch.set_num_threads(before)
    assert _C.default_threads() == usual


@pytest.fixture
def group() -> Iterator[Callable[[float], Path]]:
    """Makes a control group with a quota, if this process may make one."""
    made: list[Path] = []

    def make(cpus: float) -> Path:
        for tree, file, text in (
            (V1, "cpu.cfs_quota_us", f"{round(cpus * 100_000)}"),
            (V2, "cpu.max", f"{round(cpus * 100_000)} 100000"),
        ):
            path = tree / f"anabranch-test-{os.getpid()}-{len(made)}"
            try:
                path.mkdir()
            except OSError:
                continue
            made.append(path)
            try:
                (path / file).write_text(text)
            except OSError:
                continue
            return path
        pytest.skip("this process may make no control group with a quota")

    yield make
    for path in made:
        path.rmdir()


@pytest.mark.parametrize("cpus", [0.5, 1.0, 1.5])
def test_a_quota_counts(group: Callable[[float], Path], cpus: float) -> None:
    processes = group(cpus) / "cgroup.procs"
    found = in_a_process(lambda: processes.write_text(f"{os.getpid()}") and None)
    assert found["CPU quota"].startswith(f"{cpus:g} CPUs, by {processes.parent}")
    assert threads(found)[0] == 1


def test_containers_of_all_sizes_share_what_is_compiled(
    describe, monkeypatch: pytest.MonkeyPatch
) -> None:
    (graph,) = describe(lambda x: x + 1, torch.ones(3))
    keys = []
    for count in (1, 2):
        monkeypatch.setattr(_C, "default_threads", lambda count=count: count)
        options = json.loads(package._compiler_options(graph, Config(), []))
        assert options["threads"] == count
        keys.append(package.cache_key(graph, Config(), []))
    assert keys[0] == keys[1]


@pytest.mark.parametrize("count", [1, 2, 3])
def test_any_number_of_threads_compiles(count: int) -> None:
    compiled = torch.compile(
        lambda x: torch.softmax(x @ x, -1).sum(0),
        backend="anabranch",
        options={"threads": count},
    )
    x = torch.randn(16, 16)
    torch.testing.assert_close(compiled(x), torch.softmax(x @ x, -1).sum(0))
