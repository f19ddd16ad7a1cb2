"""Bad input neither ends nor hangs the process, and is not written to in error."""

from __future__ import annotations

import gc
import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import torch
from checking import check, compiled
from torch import nn

import anabranch

HERE = str(Path(__file__).parent)


def test_no_memory_for_a_result_fails_one_call_only():
    run = compiled(lambda x: x * 2, dynamic=True)
    x = torch.randn(3, 2)
    assert torch.equal(run(x), x * 2)
    with pytest.raises(MemoryError, match=r"shape \[1099511627776, 2\]"):
        run(torch.ones(1, 2).expand(2**40, 2))
    assert torch.equal(run(x), x * 2)


def test_no_memory_for_what_lies_between_fails_one_call_only():
    run = compiled(lambda x, y: torch.softmax(x @ y, -1).sum(), dynamic=True)
    x, y = torch.randn(3, 4), torch.randn(4, 5)
    check_equal = torch.testing.assert_close
    check_equal(run(x, y), torch.tensor(3.0))
    with pytest.raises(MemoryError):
        run(torch.ones(2**20, 2), torch.ones(2, 2**22))
    check_equal(run(x, y), torch.tensor(3.0))


def test_more_dimensions_than_a_program_has_run_eagerly():
    x = torch.ones([1] * 65)
    assert torch.equal(compiled(lambda x: x + 1)(x), x + 1)
    y = torch.ones(1)
    assert torch.equal(compiled(lambda y: y.reshape([1] * 70))(y).view(1), y)
    assert anabranch.counters.graphs == 0
    check(lambda x: x + 1, torch.ones([1] * 64))
    assert anabranch.counters.graphs == 1


def test_jagged_tensors_run_eagerly():
    parts = [torch.ones(2), torch.ones(3)]
    jagged = torch.nested.nested_tensor(parts, layout=torch.jagged)
    result = compiled(lambda x: x * 2)(jagged)
    assert torch.equal(result.values(), jagged.values() * 2)


@pytest.mark.parametrize("options", [{"trace": "/nowhere/t.json"}, {"threads": 9999}])
def test_options_are_refused_at_once(options):
    run = compiled(lambda x: x + 1, options=options)
    with pytest.raises(Exception, match="/nowhere/t.json|from 0 to 1024"):
        run(torch.ones(3))


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 8)).eval()


def test_two_threads_compile_at_once():
    failures = []

    def work(rows: int) -> None:
        try:
            with torch.no_grad():
                for _ in range(2):
                    model, x = mlp(), torch.randn(rows, 32)
                    torch.testing.assert_close(compiled(model)(x), model(x))
        except BaseException as error:  # noqa: BLE001 - told to the main thread
            failures.append(error)

    threads = [threading.Thread(target=work, args=(rows,)) for rows in (3, 4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


class Similarities(torch.nn.Module):
    def forward(self, a):
        return torch.softmax(a @ a.t(), -1).sum(0)


def test_a_model_goes_while_it_runs(tmp_path):
    """The model and its files go while another thread calls it. The test does not reset
    Dynamo: with any backend, a reset during a call ends the process."""
    x = torch.randn(2000, 300)
    path = tmp_path / "model.anb"
    anabranch.export(Similarities().eval(), path, (x,))
    box = [anabranch.load(path)]
    results = []

    def work() -> None:
        run = box.pop()
        started.set()
        results.extend(run(x) for _ in range(5))

    started = threading.Event()
    thread = threading.Thread(target=work)
    thread.start()
    started.wait()
    shutil.rmtree(path)
    gc.collect()
    thread.join()
    assert len(results) == 5
    expected = Similarities()(x)
    torch.testing.assert_close(results[-1], expected, rtol=1e-4, atol=1e-4)


def test_the_child_of_a_fork_runs_and_compiles():
    x = torch.randn(600, 600)
    run = compiled(lambda a: (a * 2).sum(1))
    expected = run(x)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            other = compiled(lambda a: a * 3 + 1)(torch.ones(3))
            code = 0 if torch.equal(run(x), expected) and other[0] == 4 else 2
        finally:
            os._exit(code)
    deadline = time.monotonic() + 120
    while (ended := os.waitpid(child, os.WNOHANG)) == (0, 0):
        if time.monotonic() > deadline:
            os.kill(child, 9)
        time.sleep(0.05)
    assert os.waitstatus_to_exitcode(ended[1]) == 0


LEAVING = """
import sys, threading, time
sys.path[:0] = PATHS
import torch

begun = threading.Event()

def run():
    from test_executable import build, increment
    executable = build(increment("s0"))
    x = torch.randn(20_000, 3)
    # At that time whatever takes the GIL ends the thread, and PyTorch's own
    # code (Dynamo's frames, the destructor of tensors) then ends the process.
    kept = []
    while True:
        kept.append(executable([x]))
        begun.set()

def compile():
    from test_executable import increment
    from anabranch import config
    from anabranch.packages import package
    while True:
        package.write(increment(), config.Config(), FOLDER + "/package")
        begun.set()

threading.Thread(target=WORK, daemon=True).start()
assert begun.wait(120)
time.sleep(0.2)
sys.exit(3)
"""


@pytest.mark.slow
@pytest.mark.parametrize("work", ["run", "compile"])
def test_the_process_ends_while_a_thread_is_busy(work, tmp_path):
    program = LEAVING.replace("WORK", work).replace("FOLDER", repr(str(tmp_path)))
    done = subprocess.run(
        [sys.executable, "-c", program.replace("PATHS", repr([HERE, *sys.path]))],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 3, done.stderr
    assert not done.stderr


def test_onednn_layout_runs_through_pytorch():
    """AOTAutograd does not see the layout: it traces a plain tensor."""
    plain = torch.randn(4, 4)
    run = compiled(lambda x: x.to_dense() + 1)
    assert torch.equal(run(plain.to_mkldnn()), plain + 1)
    assert anabranch.counters.eager_graphs == 1
    assert "oneDNN" in anabranch.last_report()["eager"]
