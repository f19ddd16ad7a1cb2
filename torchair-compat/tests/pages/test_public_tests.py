"""The runner of TorchAir's own tests says of each how it ends."""

from __future__ import annotations

import pytest

import public_tests
from public_tests import Outcome, run, table

FILE = """
import os
import unittest

import torch
import torchair
from torchair.core._backend import _Engine
from torchair.ge._graph import Graph


class Case(unittest.TestCase):
    def setUp(self):
        self.saved = torchair.npu_export._passes
        Graph.reset(1)

    def tearDown(self):
        torchair.npu_export._passes = self.saved

    def test_passes(self):
        compiled = torch.compile(lambda x: x + 1, backend="npu")
        self.assertTrue(torch.equal(compiled(torch.ones(2)), torch.full((2,), 2.0)))

    def test_calls(self):
        _Engine().run()

    def test_replaces(self):
        torchair.npu_export._passes = print

    def test_reads_the_log(self):
        with self.assertLogs("torchair") as cm:
            torchair.logger.error("said")
        self.assertTrue(any("unsaid" in log for log in cm.output))

    @unittest.skip("never")
    def test_skips(self):
        pass

    def test_fails(self):
        self.assertEqual(1, 2)

    def test_ends_the_process(self):
        os._exit(3)
"""
ENDS = {
    "calls": ("private", "torchair.core._backend._Engine"),
    "ends_the_process": ("failed", "exit status 3"),
    "fails": ("failed", "AssertionError: 1 != 2"),
    "passes": ("passed", ""),
    "reads_the_log": ("log", "AssertionError: False is not true"),
    "replaces": ("private", "torchair.npu_export._passes"),
    "skips": ("skipped", "never"),
}


LONG = """
import time
import unittest


class Case(unittest.TestCase):
    def test_rests(self):
        time.sleep(600)

    def test_works(self):
        while True:
            pass
"""


@pytest.mark.slow
def test_time_of_a_test(tmp_path) -> None:
    """A test is stopped that works too long, and one that waits for nothing."""
    path = tmp_path / "long_tests.py"
    path.write_text(LONG)
    found = run(path, "long_tests.py", seconds=12)
    reasons = {one.test.rpartition("_")[2]: one.reason for one in found}
    assert reasons == {
        "rests": "it takes more than 12 s, in which it rests",
        "works": "it takes more than 12 s of CPU time",
    }


def test_outcomes(tmp_path) -> None:
    path = tmp_path / "case_test.py"
    path.write_text(FILE, encoding="utf-8")
    found = run(path, "tests/case_test.py")
    ends = {
        outcome.test.rpartition("test_")[2]: (outcome.outcome, outcome.reason)
        for outcome in found
    }
    assert ends == ENDS
    page = table(found)
    assert "1 of 7 tests pass; 2 are of private functions, 1 of logs, 2 fail." in page
    assert "| `tests/case_test.py` | 1 | 2 | 1 | 1 | 2 |" in page
    assert "- AssertionError: 1 != 2: `test_fails` (tests)" in page


def test_causes_stand_for_errors() -> None:
    outcome = Outcome("tests/a.py", "a.A.test_b", "failed", "invalid: 'npu:1'")
    assert "- wants two NPUs: `test_b` (tests)" in table([outcome])
    inside = Outcome("a.py", "t", "failed", "'X' has no attribute '_ge_converter'")
    assert "0 of 1 tests pass; 1 are of private" in public_tests.table([inside])
