"""scripts/run_suite.py tells apart how tests end, and keeps its findings."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from anabranch import report
from repository import ROOT, script

PATH = ROOT / "scripts" / "run_suite.py"

SUITE = """
import unittest
import torch
from torch._inductor.utils import run_and_get_code

def compiled(backend):
    torch._dynamo.reset()
    return torch.compile(lambda x: x + 1, backend=backend)

class Suite(unittest.TestCase):
    def test_results(self):
        counter = torch._dynamo.testing.CompileCounter()
        for backend in ("inductor", "eager", counter):
            self.assertEqual(compiled(backend)(torch.ones(3)).sum().item(), 6)
        self.assertEqual(counter.frame_count, 1)

    def test_internals(self):
        code = run_and_get_code(compiled("inductor"), torch.ones(3))[1]
        self.assertEqual(len(code), 1)

    @unittest.skip("not here")
    def test_skipped(self):
        pass
"""


@pytest.fixture(scope="module")
def runner():
    return script("run_suite")


def act(key):
    if key == "crash":
        os.kill(os.getpid(), signal.SIGKILL)
    if key == "hang":
        time.sleep(600)
    if key == "error":
        raise KeyError(key)
    return {"outcome": "passed", "text": str(os.getpid())}


def test_a_worker_survives_what_its_tests_do(runner):
    worker = runner.Worker(act)
    keys = ["pass", "pass", "error", "pass", "crash", "pass", "hang", "pass"]
    found = [worker.ask(key, 1 if key == "hang" else 60) for key in keys]
    worker.stop()
    assert [outcome["outcome"] for outcome in found] == [
        *("passed", "passed", "failed", "passed"),
        *("crashed", "passed", "hung", "passed"),
    ]
    assert "SIGKILL" in found[4]["text"] and "KeyError" in found[2]["text"]
    # Tests that pass share a process. After a test that does not pass, a new one starts.
    processes = [found[i]["text"] for i in (0, 1, 3, 5, 7)]
    assert processes[0] == processes[1] and len(set(processes)) == 4


def test_what_the_reference_does_not_pass_is_not_held_against_the_backend(runner):
    bad, good = {"outcome": "crashed"}, {"outcome": "passed"}
    kept = {
        "file::a": {"ours": good},
        "file::b": {"ours": bad, "theirs": good},
        "file::c": {"ours": bad, "theirs": bad},
    }
    assert "| file | 1 | 0 | 1 | 0 | 1 | 0 | 0 |" in runner.table(
        kept, "ours", "theirs"
    )


def test_cut_graphs_are_counted(runner):
    kept = {
        "file::a": {"ours": {"outcome": "passed", "cut": ["no description"]}},
        "file::b": {"ours": {"outcome": "passed", "cut": []}},
    }
    assert "| file | 2 | 0 | 0 | 0 | 0 | 0 | 1 |" in runner.table(kept, "ours", "aot")
    with runner.cut_graphs() as reasons:
        report.record_eager("graph", "no description", explain=False)
    report.record_eager("graph", "after the block", explain=False)
    assert reasons == ["no description"]


@pytest.mark.slow
def test_every_named_backend_is_replaced(tmp_path):
    suite, kept = tmp_path / "test_small.py", tmp_path / "kept.json"
    suite.write_text(SUITE)
    backends = ["--backend", "aot_eager", "--reference", "eager"]
    command = [sys.executable, PATH, suite, "--json", kept, *backends]
    subprocess.run(command, check=True, timeout=300)
    found = json.loads(kept.read_text())
    outcome = {key.rpartition(".")[2]: found[key]["aot_eager"] for key in found}
    assert {key: outcome[key]["outcome"] for key in outcome} == {
        "test_results": "passed",
        "test_internals": "failed",
        "test_skipped": "skipped",
    }
    assert outcome["test_results"]["graphs"] == 3
