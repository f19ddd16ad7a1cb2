"""The emulated host runs suites and tests that are there: a name that nothing has any more
would be found an hour into `make test-aarch64`, or never."""

from __future__ import annotations

import pytest
from suites import NOT_THERE, SUITES

from repository import ROOT

FOLDER = ROOT / "test/python"


@pytest.mark.parametrize("suite", SUITES)
def test_a_suite_is_there(suite: str) -> None:
    assert (FOLDER / suite).is_file()


@pytest.mark.parametrize("name", NOT_THERE)
def test_a_test_that_is_left_out_is_in_a_suite(name: str) -> None:
    texts = [(FOLDER / suite).read_text(encoding="utf-8") for suite in SUITES]
    assert any(f"def {name}(" in text for text in texts)
