"""CHECKLIST.md names, for every line, the tests that are marked with its number."""

from __future__ import annotations

import checklist


def test_the_page_is_current() -> None:
    assert checklist.PAGE.read_text() == checklist.page(checklist.results())


def test_marks_name_lines_that_exist() -> None:
    known = {number for number, _ in checklist.lines() if number}
    assert len(known) == 148
    assert set(checklist.tests()) <= known


def test_no_line_fails() -> None:
    assert [n for n, result in checklist.results().items() if result == "fails"] == []


def test_results_of_a_run_are_merged(monkeypatch) -> None:
    monkeypatch.setattr(
        checklist, "results", lambda: {"T001": "fails", "T002": "holds"}
    )
    found = checklist.merged({"T001": ["passed", "skipped"], "T003": ["failed"]})
    assert found == {"T001": "holds", "T002": "holds", "T003": "fails"}
