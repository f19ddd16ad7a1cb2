"""The sample of combinations that `make test` runs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import covering
import pytest

SUPPORT = Path(covering.__file__).parent
CONFTEST = """
import covering
def pytest_collection_modifyitems(config, items):
    covering.leave_out(config, items)
"""
TESTS = """
import pytest

@pytest.fixture(params=["x", "y"])
def letter(request):
    return request.param

@pytest.mark.parametrize("size", range(5))
@pytest.mark.parametrize("pair", [(1, 2), (1, 3), (2, 2), (2, 3)])
def test_crossed(size, pair, letter): pass

@pytest.mark.parametrize("a,b", [(a, b) for a in range(3) for b in range(4)])
def test_listed(a, b): pass

@pytest.mark.parametrize("a", range(3))
@pytest.mark.parametrize("b", range(2))
def test_few(a, b): pass

@pytest.mark.slow
@pytest.mark.parametrize("a", range(3))
@pytest.mark.parametrize("b", range(2))
def test_slow(a, b): pass

def test_alone(): pass

@pytest.mark.slow
def test_slow_alone(): pass
"""


@pytest.fixture
def collected(tmp_path):
    """collected(text) commits the text, and gives the tests of a sample, by function."""
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_it.py").write_text(TESTS)
    author = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b.c"}
    author |= {"GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b.c"}
    environment = {**os.environ, **author, "PYTHONPATH": str(SUPPORT)}

    def run(*command: str, **added: str) -> str:
        return subprocess.run(
            command,
            cwd=tmp_path,
            env=environment | added,
            capture_output=True,
            text=True,
            check=True,
        ).stdout

    run("git", "init", "-q")

    def collect(text: str, which: str = "sample") -> dict[str, set[str]]:
        (tmp_path / "text").write_text(text)
        run("git", "add", "-A")
        run("git", "commit", "-qm", text)
        pytest_ = (sys.executable, "-m", "pytest", "--collect-only", "-q")
        lines = run(*pytest_, "-p", "no:cacheprovider", ANABRANCH_TESTS=which)
        found: dict[str, set[str]] = {}
        for line in lines.splitlines():
            if "::" in line:
                name, _, values = line.partition("::")[2].partition("[")
                found.setdefault(name, set()).add(values.rstrip("]"))
        return found

    return collect


def test_every_value_is_in_a_sample(collected) -> None:
    samples = [collected(text)["test_crossed"] for text in "abc"]
    for sample in samples:
        combinations = [name.split("-") for name in sample]
        assert {letter for letter, *_ in combinations} == {"x", "y"}
        assert {size for *_, size in combinations} == set("01234")
        assert {pair for _, pair, _ in combinations} == {f"pair{i}" for i in range(4)}
        assert len(sample) < 20
    assert not samples[0] == samples[1] == samples[2]


def test_one_list_of_parameters_stays_whole(collected) -> None:
    found = collected("a")
    assert len(found["test_listed"]) == 12
    assert len(found["test_few"]) == 6
    assert found["test_alone"] == found["test_slow_alone"] == {""}


def test_a_slow_test_has_a_sample_of_few_combinations(collected) -> None:
    pairs = [name.split("-") for name in collected("a")["test_slow"]]
    assert len(pairs) == 3
    assert {b for b, _ in pairs} == {"0", "1"}
    assert {a for _, a in pairs} == {"0", "1", "2"}


def test_all_run_if_no_sample_is_asked_for(collected) -> None:
    assert len(collected("a", which="")["test_crossed"]) == 40
